package beside;

/** A row of the input; public fields make it a POJO of Flink's, with a serializer of its own. */
public class Event {
    public long id;
    /** Event time in microseconds since 1970. */
    public long at;
    public String user;
    public double value;
}
