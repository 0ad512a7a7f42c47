-- A day is known once the watermark has passed its end: two hours later.
SELECT
    user_id,
    window.start AS day,
    count(*) AS orders,
    sum(euro_cents) AS euro_cents,
    window.end + INTERVAL 2 HOURS AS known_at
FROM input
GROUP BY window(at, '1 day'), user_id
