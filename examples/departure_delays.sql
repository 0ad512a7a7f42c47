-- Delays by airport and hour of departure (UTC), and the time at which they became known: all
-- departures of the hour are reported, and the watermark has passed its end.
SELECT
    origin,
    window.start AS hour,
    count(*) AS departures,
    avg(dep_delay) AS mean_delay,
    max(dep_delay) AS max_delay,
    count_if(dep_delay >= 15) AS late,
    greatest(max(reported), window.end + INTERVAL 30 MINUTES) AS known_at
FROM input
GROUP BY window(departed, '1 hour'), origin
