-- The rows that `user_features.sql` has to return, without Spark's window function. Days whose end
-- the watermark has not passed are not in the table yet.
SELECT
    user_id,
    day,
    count(*) AS orders,
    sum(euro_cents) AS euro_cents,
    day + INTERVAL 26 HOURS AS known_at
FROM (SELECT *, date_trunc('day', "at") AS day FROM input)
WHERE day + INTERVAL 26 HOURS <= (SELECT max("at") FROM input)
GROUP BY user_id, day
