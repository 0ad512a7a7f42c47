-- The rows that `flights:events` has to return: each flight once.
SELECT
    carrier,
    flight,
    origin,
    scheduled_departure,
    dest,
    dep_delay,
    arr_delay,
    cancelled,
    CASE
        WHEN cancelled THEN 'cancelled'
        WHEN dep_delay < 15 THEN 'on_time'
        WHEN dep_delay < 60 THEN 'late'
        ELSE 'very_late'
    END AS delay_class,
    CAST(scheduled_departure AS DATE) AS departure_day
FROM input
