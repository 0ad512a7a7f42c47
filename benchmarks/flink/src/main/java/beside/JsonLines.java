package beside;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;

/** Files of JSON lines, parsed from their bytes without a string for each line. */
class JsonLines extends SimpleStreamFormat<Event> {
    @Override
    public StreamFormat.Reader<Event> createReader(Configuration config, FSDataInputStream stream)
            throws IOException {
        JsonParser parser = EventParser.JSON.createParser(stream);
        return new StreamFormat.Reader<>() {
            @Override
            public Event read() throws IOException {
                return EventParser.next(parser);
            }

            @Override
            public void close() throws IOException {
                parser.close();
            }
        };
    }

    @Override
    public TypeInformation<Event> getProducedType() {
        return TypeInformation.of(Event.class);
    }
}
