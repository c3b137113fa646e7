create table a (id int primary key, i int, big bigint, n numeric, f double precision, t text, d date, m timestamp, o boolean);
create table b (id int primary key, a_id int, i smallint, p numeric(10, 2), t varchar(10), d date, o boolean);
create index on b (a_id);
create table c (k int, s smallint, g real, n numeric, t text, m timestamp);
insert into a values
  (1, 0, 9223372036854775807, 12345678901234567890.123, 0.5, 'a', '2024-02-29', '2024-02-29 23:59:59.999999', true),
  (2, 1, -9223372036854775808, -0.001, 'NaN', 'A', '1999-12-31', '1970-01-01', false),
  (3, 2, 0, 0, 'Infinity', '', '0044-03-15 BC', '0001-01-01 00:00:00', null),
  (4, -3, 2147483648, 99.5, '-Infinity', null, null, '9999-12-31 12:00', true),
  (5, null, 42, 1000000, -0.25, 'ab%', '2000-01-01', null, false),
  (6, 7, null, null, 1024, 'é', '2024-02-29', '2024-03-31 02:30:00', true),
  (7, 7, -1, -7.77, null, ' x ', '2023-03-01', '2024-02-29 23:59:59.999999', null),
  (8, 10, 1, 3.14159265358979, 0, 'NULL', '1582-10-15', '2000-06-15 06:07:08.9', false);
insert into b values
  (1, 1, 1, 10.00, 'a', '2024-02-29', true), (2, 1, 2, 0.01, 'b', null, false), (3, 2, null, -5.50, null, '1999-12-31', null),
  (4, 3, 7, 99999999.99, 'A', '2024-03-01', true), (5, null, 0, 0.00, 'é', '2000-01-01', false),
  (6, 9, -3, null, '', '2024-02-29', true), (7, 7, 7, 10.00, 'ab%', '1970-01-01', null), (8, 2, 1, 0.50, 'a', null, true),
  (9, 1, 10, 2.25, 'x_y', '2023-03-01', false);
insert into c values
  (1, 1, 0.5, 1.5, 'a', '2024-02-29 23:59:59.999999'), (1, 1, 0.5, 1.5, 'a', '2024-02-29 23:59:59.999999'), (2, null, 'NaN', 'NaN', 'zz', null),
  (3, 7, -2, -1.25, null, '1970-01-01'), (null, -3, null, null, 'A', '2000-01-01'), (7, 2, 16777216, 1e20, '', '1999-12-31 23:59'),
  (null, null, null, null, null, null);
