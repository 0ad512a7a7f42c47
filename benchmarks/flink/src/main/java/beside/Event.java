package beside;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** A row of the input; public fields make it a POJO of Flink's, with a serializer of its own. */
public class Event {
    public long id;
    /** Event time in microseconds since 1970. */
    public long at;
    public String user;
    public double value;

    /** The time as JSON has it, for data binding. */
    public void setAt(String time) {
        at = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.parse(time));
    }
}
