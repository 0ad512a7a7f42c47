package beside;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;

/** The JSON value of a record. */
class JsonValue extends AbstractDeserializationSchema<Event> {
    JsonValue() {
        super(Event.class);
    }

    @Override
    public Event deserialize(byte[] value) throws IOException {
        try (JsonParser parser = EventParser.JSON.createParser(value)) {
            return EventParser.next(parser);
        }
    }
}
