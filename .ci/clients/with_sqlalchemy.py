"""SQLAlchemy 2: what it reads of a schema, printed, and a schema of its own, with Core and the ORM. `--reflect` only prints."""
import datetime as dt
import decimal
import os
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

D = decimal.Decimal
failures = []


def check(what, found, wanted):
    if found != wanted:
        failures.append(f"{what}: {found!r} is not {wanted!r}")


def engine(driver):
    return sa.create_engine(f"postgresql+{driver}://postgres@{os.environ['PGHOST']}:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}")


def reflect():
    for driver in ("psycopg", "psycopg2"):
        inspector = sa.inspect(engine(driver))
        print("#", driver)
        print([name for name in inspector.get_schema_names() if name != "overtake"])
        for schema in (None, "sales"):
            print(schema, sorted(inspector.get_table_names(schema)), sorted(inspector.get_view_names(schema)))
            print(sorted(inspector.get_sequence_names(schema)))
            for table in sorted(inspector.get_table_names(schema) + inspector.get_view_names(schema)):
                print("##", table, inspector.get_table_comment(table, schema)["text"])
                for column in inspector.get_columns(table, schema):
                    print({**column, "type": repr(column["type"])})
                print(inspector.get_pk_constraint(table, schema))
                for key in sorted(inspector.get_foreign_keys(table, schema), key=lambda key: key["name"]):
                    print(key)
                for rows in (inspector.get_indexes, inspector.get_unique_constraints, inspector.get_check_constraints):
                    for row in sorted(rows(table, schema), key=lambda row: row["name"]):
                        print(row)
            for view in sorted(inspector.get_view_names(schema)):
                print(inspector.get_view_definition(view, schema))
        metadata = sa.MetaData()
        metadata.reflect(engine(driver), schema="sales", views=True)
        for table in metadata.sorted_tables:
            print(sa.schema.CreateTable(table).compile(dialect=pg.dialect()))


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True)
    born: orm.Mapped[dt.date | None]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_is_no_gift"), sa.Index("book_by_title", "title", "price"))
    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id", ondelete="CASCADE"))
    title: orm.Mapped[str]
    price: orm.Mapped[D] = orm.mapped_column(sa.Numeric(8, 2), server_default="9.99")
    added: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    tags: orm.Mapped[list[str]] = orm.mapped_column(pg.ARRAY(sa.Text), default=list)
    sold: orm.Mapped[bool] = orm.mapped_column(default=False)
    data: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


def use(driver):
    db = engine(driver)
    Base.metadata.drop_all(db)
    Base.metadata.create_all(db)
    with orm.Session(db) as session:
        ada = Author(name="Ada", born=dt.date(1815, 12, 10), books=[Book(title=f"Notes {at}", tags=["engine", "a,b"], data={"at": at}) for at in range(20)])
        session.add_all([ada, Author(name="Grace", books=[Book(title="COBOL", price=D("12.50"))]), Author(name="Nobody")])
        session.commit()
        check(f"{driver}: refreshed", (ada.id, ada.books[0].price, ada.books[0].added.tzinfo is not None), (1, D("9.99"), True))
        query = sa.select(Author.name, sa.func.count(Book.id), sa.func.sum(Book.price)).outerjoin(Author.books).group_by(Author.name).order_by(Author.name)
        check(f"{driver}: grouped", session.execute(query).all(), [("Ada", 20, D("199.80")), ("Grace", 1, D("12.50")), ("Nobody", 0, None)])
        loaded = session.scalars(sa.select(Author).options(orm.selectinload(Author.books)).order_by(Author.id)).all()
        check(f"{driver}: loaded", [len(author.books) for author in loaded], [20, 1, 0])
        joined = session.scalars(sa.select(Book).options(orm.joinedload(Book.author)).where(Book.title.ilike("cob%"))).one()
        check(f"{driver}: joined", (joined.author.name, joined.tags, joined.data, joined.sold), ("Grace", [], None, False))
        check(f"{driver}: any", session.scalar(sa.select(sa.func.count()).where(Book.tags.any("engine"))), 20)
        page = session.scalars(sa.select(Book.title).where(Book.author_id == 1).order_by(Book.title.desc()).limit(2).offset(1)).all()
        check(f"{driver}: a page", page, ["Notes 8", "Notes 7"])
        ranked = sa.select(Book.title, sa.func.row_number().over(partition_by=Book.author_id, order_by=Book.title).label("n")).subquery()
        check(f"{driver}: ranked", session.execute(sa.select(ranked.c.title).where(ranked.c.n == 2)).scalars().all(), ["Notes 1"])
        ada.name = "Ada Lovelace"
        del ada.books[0]
        session.commit()
        check(f"{driver}: orphans go", session.scalar(sa.select(sa.func.count()).select_from(Book)), 20)
        changed = session.execute(sa.update(Book).where(Book.price < 10).values(price=Book.price + 1).returning(Book.price)).scalars().all()
        check(f"{driver}: returning", changed, [D("10.99")] * 19)
        session.rollback()
        upsert = pg.insert(Author).values([{"name": "Grace", "born": dt.date(1906, 12, 9)}, {"name": "Edsger", "born": None}])
        upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"born": upsert.excluded.born})
        session.execute(upsert)
        session.commit()
        check(f"{driver}: upsert", session.scalar(sa.select(Author.born).where(Author.name == "Grace")), dt.date(1906, 12, 9))
        with session.begin_nested() as inner:
            session.add(Author(name="gone"))
            session.flush()
            inner.rollback()
        check(f"{driver}: savepoint", session.scalar(sa.select(sa.exists().where(Author.name == "gone"))), False)
        try:
            session.add(Book(author_id=99, title="of nobody"))
            session.flush()
            failures.append(f"{driver}: a reference to nobody")
        except sa.exc.IntegrityError as error:
            check(f"{driver}: its constraint", error.orig.diag.constraint_name, "book_author_id_fkey")
            session.rollback()
        locked = session.scalars(sa.select(Author).where(Author.id == 1).with_for_update(skip_locked=True)).one()
        session.delete(locked)
        session.commit()
        check(f"{driver}: cascade", session.scalar(sa.select(sa.func.count()).select_from(Book)), 1)
    with db.connect() as connection:
        many = [{"name": f"author {at}", "born": dt.date(1900, 1, 1)} for at in range(2500)]
        connection.execute(sa.insert(Author), many)
        names = connection.execute(sa.select(Author.id).where(Author.name.in_([row["name"] for row in many[:500]]))).scalars().all()
        check(f"{driver}: many", len(names), 500)
        connection.rollback()
        check(f"{driver}: levels", [connection.default_isolation_level, connection.dialect.server_version_info[0]], ["READ COMMITTED", 15])
    with db.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        check(f"{driver}: serializable", connection.execute(sa.text("show transaction_isolation")).scalar(), "serializable")
    with db.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("select 1"))
        connection.rollback()
    reflected = sa.MetaData()
    reflected.reflect(db, only=["author", "book"])
    check(f"{driver}: reflected", sorted(reflected.tables), ["author", "book"])
    Base.metadata.drop_all(db)
    check(f"{driver}: dropped", sa.inspect(db).has_table("author"), False)
    db.dispose()


if "--reflect" in sys.argv:
    reflect()
else:
    for driver in ("psycopg", "psycopg2"):
        use(driver)
for failure in failures:
    print("sqlalchemy:", failure)
sys.exit(bool(failures))
