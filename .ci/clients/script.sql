\pset null NULL
create table people (id int primary key, name text not null, born date, height numeric(5,2), notes varchar(20));
insert into people values (1, 'Ada', '1815-12-10', 1.65, null), (2, 'Grace', '1906-12-09', 1.60, 'rear admiral');
select * from people order by id;
insert into people values (1, 'Again');
insert into people (id) values (3);
selec 1;
select nothing from people;
select 1/0;
begin;
update people set name = upper(name) where id = 1;
savepoint s;
delete from people;
rollback to s;
select count(*), min(name) from people;
commit;
\set ON_ERROR_ROLLBACK off
begin;
select * from missing;
select 1;
rollback;
prepare p (int) as select name from people where id = $1;
execute p(2);
deallocate p;
copy people from stdin;
4	Edsger	1930-05-11	1.80	\N
5	Barbara	1939-11-07	1.70	it's
\.
copy (select id, name from people order by id) to stdout with (format csv, header);
copy people from stdin;
6	x	not a date	1	\N
7	never	read
\.
select count(*) from people;
select current_setting('server_version_num')::int / 10000 as version;
set nothing = 1;
\x on
select id, name from people where id < 3 order by id;
\x off
select 1 as a \; select 2 as b;
\gset
drop table people;
