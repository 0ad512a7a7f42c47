-- The rows that `flights:delays` has to return, computed without Spark's window function: each
-- 6-hour mark (UTC) is joined with the flights of the 24 hours after it.
WITH span AS (
    SELECT
        floor(epoch(min(scheduled_departure)) / (6 * 3600)) AS first_mark,
        floor(epoch(max(scheduled_departure)) / (6 * 3600)) AS last_mark
    FROM input
),
marks AS (
    -- The first flight also lies in windows that begin up to 18 hours before its own mark.
    SELECT to_timestamp(mark * 6 * 3600) AS window_start
    FROM (
        SELECT unnest(generate_series(first_mark::BIGINT - 3, last_mark::BIGINT)) AS mark
        FROM span
    )
)
SELECT
    window_start,
    window_start + INTERVAL 24 HOURS AS window_end,
    origin,
    carrier,
    count(*) AS flights,
    avg(dep_delay) AS mean_dep_delay,
    count(*) FILTER (cancelled) / count(*) AS share_cancelled
FROM marks
JOIN input
    ON scheduled_departure >= window_start
    AND scheduled_departure < window_start + INTERVAL 24 HOURS
GROUP BY window_start, origin, carrier
