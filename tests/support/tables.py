"""Small files of every kind that the readers take, and school districts as the Census Bureau writes them."""

import io

import polars as pl

DISTRICTS = [
    ("01", "00190", "Alabaster City School District", 34669, 6710, 649),
    ("06", "22710", "Los Angeles Unified School District", 4621045, 701435, 149342),
    ("35", "00960", "Española Municipal Schools", 25000, 4000, 1000),
    ("30", "09120", "Dodson K-12 1 2 3", 300, 60, 0),
    ("20", "00001", "Republic County-Hillcrest Rural Schools Unified School District 10", 9, 1, 1),
]
TAG = "ussd19.txt  24NOV2020"
HEADINGS = (
    "State Postal Code", "State FIPS Code", "District ID", "Name", "Estimated Total Population", "Estimated Population 5-17",
    "Estimated number of relevant children 5 to 17 years old in poverty who are related to the householder",
)  # fmt: skip


def put(folder, name, content):
    """A file of this content."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet(columns):
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


def fixed(districts, gap=1, width=72, encoding="latin-1", tag=TAG):
    """The text file in the layout of the Census Bureau: 1-2, 4-8, 10-81, 83-90, 92-99, 101-108, 110-130."""
    lines = [
        f"{state}{' ' * gap}{district} {name:<{width}.{width}} {pop:>8} {young:>8} {poor:>8} {tag}"
        for state, district, name, pop, young, poor in districts
    ]
    return ("\r\n".join(lines) + "\r\n").encode(encoding)


def xls(districts, number_codes=False):
    """The .xls file: two rows of titles, the names of the columns in the third, the districts, and a note."""
    import xlwt

    book = xlwt.Workbook()
    sheet = book.add_sheet("ussd19")
    rows = [
        ["Table with column headers in row 3"],
        ["Source: U.S. Census Bureau, Small Area Income and Poverty Estimates"],
    ]
    rows += [HEADINGS]
    for state, district, *rest in districts:
        rows.append(["XX", *([int(state), int(district)] if number_codes else [state, district]), *rest])
    for i, row in enumerate([*rows, [], ["A note below the table"]]):
        for j, cell in enumerate(row):
            sheet.write(i, j, cell)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()
