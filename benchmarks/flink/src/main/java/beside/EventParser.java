package beside;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;

/** Jackson's streaming parser and a parser of times, both for this row alone. */
final class EventParser {
    static final JsonFactory JSON = new JsonFactory();
    private static final int SECONDS = "2024-01-01T00:00:00Z".length();

    private EventParser() {}

    /** Returns the next event of a sequence of JSON objects; null at its end. */
    static Event next(JsonParser parser) throws IOException {
        if (parser.nextToken() == null) {
            return null;
        }
        Event event = new Event();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String field = parser.currentName();
            parser.nextToken();
            switch (field) {
                case "id" -> event.id = parser.getLongValue();
                case "at" -> event.at = micros(parser.getText());
                case "user" -> event.user = parser.getText();
                case "value" -> event.value = parser.getDoubleValue();
                default -> parser.skipChildren();
            }
        }
        return event;
    }

    /** Whole seconds in UTC, several times as fast as {@link Instant#parse}; else that one. */
    private static long micros(String time) {
        if (time.length() != SECONDS || time.charAt(SECONDS - 1) != 'Z') {
            return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.parse(time));
        }
        int year = two(time, 0) * 100 + two(time, 2);
        long day = LocalDate.of(year, two(time, 5), two(time, 8)).toEpochDay();
        long second = (two(time, 11) * 60L + two(time, 14)) * 60 + two(time, 17);
        return (day * 86_400 + second) * 1_000_000;
    }

    private static int two(String digits, int at) {
        return (digits.charAt(at) - '0') * 10 + digits.charAt(at + 1) - '0';
    }
}
