\d
\dt
\dt+ sales.*
\d every_type
\d+ every_type
\d sales.customer
\d+ sales.customer
\d sales.product
\d sales.order
\d+ sales.order
\d "Odd Table"
\d without_key
\d expensive
\d+ expensive
\d sales.open_orders
\d+ sales.open_orders
\d invoice_number
\d every_type_id_seq
\d sales.customer_id_seq
\d sales.order_by_customer
\d+ sales.customer_pkey
\d sales.customer_name_born
\d missing
\dt missing
\dt *.order
\dn
\dn+ sales
\di
\di sales.*
\di+ sales.order_by_customer
\ds
\ds sales.*
\ds+
\dv
\dv sales.*
\dv+ sales.*
\dtvs
\dtv public.e*
\dp
\dp sales.*
\z every_type
\du
\du+ clerk
\dg
\drds
\ddp
\dT int4
\dT numeric
\dT+ text
\dT timestamptz
\dc nothing*
\dD
\des
\dew
\det
\dE
\dF nothing*
\dFd nothing*
\dm
\dO C
\dP
\dRp
\dRs
\dX
\dx nothing*
\dy
\db
\df repeat
\df public.*
\df abs
\df+ md5
\da count
\l postgres
\do || text text
\do = int4 int4
\dconfig search_path
\sv expensive
\sv+ sales.open_orders
set search_path = sales, public;
\d
\dt
\d order
\d customer
\d open_orders
\d every_type
\sv open_orders
reset search_path;
\x on
\d sales.product
\dt sales.*
\x off
\pset format unaligned
\dt
\pset format aligned
\t on
\dt
\t off
