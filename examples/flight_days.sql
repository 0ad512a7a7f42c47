-- Flights, delays and cancellations of each carrier by day (UTC).
SELECT
    window.start AS day,
    carrier,
    count(*) AS flights,
    avg(dep_delay) AS mean_dep_delay,
    count_if(cancelled) AS cancelled
FROM input
GROUP BY window(scheduled_departure, '1 day'), carrier
