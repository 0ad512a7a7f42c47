package beside;

import com.fasterxml.jackson.databind.MappingIterator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;

/** JSON by Jackson's data binding, as Flink's own {@code JsonDeserializationSchema} reads it. */
final class BoundJson {
    private static final ObjectReader READER = new ObjectMapper().readerFor(Event.class);

    private BoundJson() {}

    /** The value of a record. */
    static final class Value extends AbstractDeserializationSchema<Event> {
        Value() {
            super(Event.class);
        }

        @Override
        public Event deserialize(byte[] value) throws IOException {
            return READER.readValue(value);
        }
    }

    /** Files of JSON lines. */
    static final class Lines extends SimpleStreamFormat<Event> {
        @Override
        public StreamFormat.Reader<Event> createReader(
                Configuration config, FSDataInputStream stream) throws IOException {
            MappingIterator<Event> events = READER.readValues(stream);
            return new StreamFormat.Reader<>() {
                @Override
                public Event read() throws IOException {
                    return events.hasNextValue() ? events.nextValue() : null;
                }

                @Override
                public void close() throws IOException {
                    events.close();
                }
            };
        }

        @Override
        public TypeInformation<Event> getProducedType() {
            return TypeInformation.of(Event.class);
        }
    }
}
