-- The rows that `departure_delays.sql` has to return, without Spark's window function. The hours
-- whose end the watermark has not passed are not in the table yet.
WITH hours AS (
    SELECT *, to_timestamp(floor(epoch(departed) / 3600) * 3600) AS hour
    FROM input
)
SELECT
    origin,
    hour,
    count(*) AS departures,
    sum(dep_delay) / count(*) AS mean_delay,
    max(dep_delay) AS max_delay,
    count(*) FILTER (dep_delay >= 15) AS late,
    greatest(max(reported), hour + INTERVAL 90 MINUTES) AS known_at
FROM hours
WHERE hour + INTERVAL 90 MINUTES <= (SELECT max(departed) FROM input)
GROUP BY origin, hour
