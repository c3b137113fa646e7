-- What psql does with results and with files.
\pset null NULL
select * from sales.customer order by id \gdesc
select id, price, words, day + 1 as tomorrow, numbers, now() - made as age, 'x', null from every_type \gdesc
create table not_run (a int) \gdesc
select 1 \gdesc
select maker, number, title from sales.product order by maker, number \crosstabview maker number title
select maker, number, title from sales.product order by maker desc, number \crosstabview
select name, country from sales.customer order by id \g (format=unaligned)
select code as v_code, id as v_id from sales.customer where id = 2 \gset
\echo :v_code :v_id
select :'v_code' as text, :v_id as number, :"v_code" from (select 1 as "G2") x;
select format('select %s + 1', id) from sales.customer order by id \gexec
select 1 as a \; select 2 as b \; select 3 as c;
prepare find (int) as select name from sales.customer where id = $1;
execute find (3);
deallocate find;
\copy without_key to pstdout
\copy without_key (b) to pstdout with (format csv, force_quote (b), null 'none')
\copy (select id, name, born from sales.customer order by id) to pstdout csv header
\copy without_key from stdin
4	four
5	\N
\.
\copy without_key (b, a) from stdin with (format csv, header)
b,a
"six, or so",6
\.
copy without_key from stdin (delimiter '|');
7|seven
8|eight|many
\.
copy without_key from stdin;
nine	9
\.
select * from without_key order by a;
\copy (select * from without_key order by a) to 'without_key.copy'
delete from without_key;
\copy without_key from 'without_key.copy'
\! cat without_key.copy
select count(*) from without_key;
insert into sales.customer (code, name) values ('A1', 'again');
insert into sales.customer (code, name, credit) values ('Z9', 'poor', -1);
insert into sales.customer (id, code, name) values (9, 'Z9', 'numbered');
insert into sales."order" (customer) values (99);
delete from sales.product where maker = 1;
insert into sales.product values (3, null);
drop table sales.product;
drop schema sales;
\set VERBOSITY sqlstate
select 1/0;
select nothing;
\set VERBOSITY default
\set ON_ERROR_ROLLBACK on
begin;
select 1/0;
select 'still here';
commit;
\set ON_ERROR_ROLLBACK off
\encoding
select current_user, session_user, current_schema();
\echo :ENCODING :USER :DBNAME
select 'a' as "A", E'two\nlines' as "B";
\x auto
select * from every_type;
\if true
select 'yes' as if;
\else
select 'no' as if;
\endif
create table if not exists without_key (a int);
drop table if exists nobody;
selec 1;
