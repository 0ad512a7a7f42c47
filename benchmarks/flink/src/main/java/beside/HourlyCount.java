package beside;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Number and sum of a user's events in an hour. */
public class HourlyCount {
    /** Begin of the hour in microseconds since 1970. */
    public long hour;
    public String user;
    public long n;
    public double total;

    /** Adds up the events of a window one by one. */
    static class Sum implements AggregateFunction<Event, HourlyCount, HourlyCount> {
        @Override
        public HourlyCount createAccumulator() {
            return new HourlyCount();
        }

        @Override
        public HourlyCount add(Event event, HourlyCount sum) {
            sum.n += 1;
            sum.total += event.value;
            return sum;
        }

        @Override
        public HourlyCount getResult(HourlyCount sum) {
            return sum;
        }

        @Override
        public HourlyCount merge(HourlyCount one, HourlyCount other) {
            one.n += other.n;
            one.total += other.total;
            return one;
        }
    }

    /** Names the hour and the user of a sum. */
    static class Named extends ProcessWindowFunction<HourlyCount, HourlyCount, String, TimeWindow> {
        @Override
        public void process(
                String user,
                Context context,
                Iterable<HourlyCount> sums,
                Collector<HourlyCount> out) {
            HourlyCount count = sums.iterator().next();
            count.hour = context.window().getStart() * 1000;
            count.user = user;
            out.collect(count);
        }
    }
}
