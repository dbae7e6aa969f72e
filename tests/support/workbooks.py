"""Small .xlsx files made by hand: the parts of the format that a reader needs, and no library."""

import io
import zipfile
from xml.sax.saxutils import escape, quoteattr

TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/xl/workbook.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{sheets}</Types>'
)
SHEET_TYPE = (
    '<Override PartName="/xl/worksheets/sheet{k}.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
)
RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _cell(row, column, value):
    place = f"{chr(65 + column)}{row}"
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'


def xlsx(**sheets):
    """A workbook: each sheet by name, as rows of text, numbers and None."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as parts:
        numbers = range(1, len(sheets) + 1)
        parts.writestr("[Content_Types].xml", TYPES.format(sheets="".join(SHEET_TYPE.format(k=k) for k in numbers)))
        root = f'<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        parts.writestr("_rels/.rels", RELATIONS.format(root))
        links = "".join(
            f'<Relationship Id="rId{k}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in numbers
        )
        parts.writestr("xl/_rels/workbook.xml.rels", RELATIONS.format(links))
        named = "".join(
            f'<sheet name={quoteattr(name)} sheetId="{k}" r:id="rId{k}"/>' for k, name in enumerate(sheets, 1)
        )
        book = f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{named}</sheets></workbook>'
        parts.writestr("xl/workbook.xml", book)
        for k, rows in enumerate(sheets.values(), 1):
            body = "".join(
                f'<row r="{r}">{"".join(_cell(r, c, v) for c, v in enumerate(row) if v is not None)}</row>'
                for r, row in enumerate(rows, 1)
            )
            parts.writestr(
                f"xl/worksheets/sheet{k}.xml", f'<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>'
            )
    return out.getvalue()


def saipe_text(districts):
    """School districts in the Census Bureau's layout: 1-2, 4-8, 10-81, 83-90, 92-99, 101-108, 110-."""
    return "".join(
        f"{state} {district} {name:<72.72} {pop:>8} {young:>8} {poor:>8} ussd19.txt\n"
        for state, district, name, pop, young, poor in districts
    )
