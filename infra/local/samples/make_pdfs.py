#!/usr/bin/env python3
"""Makes the two PDFs that ship with Longhaul, byte for byte the same each time.

    pip install reportlab==5.1.0
    python make_pdfs.py

writes supplier-agreement.pdf beside this file and serverless-time-limits.pdf into ../corpus.
"""

from pathlib import Path

from reportlab.lib import colors
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from agreement_annexes import ANNEXES
from agreement_clauses import CLAUSES
from agreement_schedules import SCHEDULES
from article_serverless import ARTICLE

HERE = Path(__file__).parent
ALL_SCHEDULES = SCHEDULES + ANNEXES
BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=12, leading=20, alignment=TA_JUSTIFY, spaceAfter=10)
SUBCLAUSE = ParagraphStyle("subclause", parent=BODY, leftIndent=13 * mm, firstLineIndent=-13 * mm)
HEADING = ParagraphStyle("heading", fontName="Times-Bold", fontSize=13, leading=19, spaceBefore=13, spaceAfter=7, keepWithNext=1)
TITLE = ParagraphStyle("title", fontName="Times-Bold", fontSize=22, leading=30, alignment=TA_CENTER, spaceAfter=18)
CENTRED = ParagraphStyle("centred", parent=BODY, alignment=TA_CENTER)
CELL = ParagraphStyle("cell", fontName="Times-Roman", fontSize=11, leading=15)
HEAD_CELL = ParagraphStyle("head", parent=CELL, fontName="Times-Bold")


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def table(rows, width):
    columns = len(rows[0])
    cells = [[Paragraph(escaped(cell), HEAD_CELL if at == 0 else CELL) for cell in row] for at, row in enumerate(rows)]
    shares = {2: (0.62, 0.38), 3: (0.34, 0.28, 0.38), 4: (0.4, 0.24, 0.2, 0.16), 5: (0.1, 0.34, 0.15, 0.15, 0.26)}[columns]
    made = Table(cells, colWidths=[share * width for share in shares], repeatRows=1)
    made.setStyle(TableStyle([
        ("GRID", (0, 0), (-1, -1), 0.4, colors.grey), ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
    ]))
    return [made, Spacer(1, 9)]


def blocks(found, width):
    flow = []
    for block in found:
        if isinstance(block, str):
            flow.append(Paragraph(escaped(block), BODY))
        elif block[0] == "heading":
            flow.append(Paragraph(escaped(block[1]), HEADING))
        else:
            flow += table(block[1], width)
    return flow


def agreement(path):
    document = SimpleDocTemplate(
        str(path), pagesize=A4, leftMargin=32 * mm, rightMargin=32 * mm, topMargin=32 * mm, bottomMargin=30 * mm,
        title="Supplier Agreement", author="Longhaul sample", invariant=1)
    flow = [
        Spacer(1, 60 * mm), Paragraph("Supplier Agreement", TITLE),
        Paragraph("on hosting and application services for refrigerated warehouses", CENTRED), Spacer(1, 20 * mm),
        Paragraph("between", CENTRED),
        Paragraph("Brantwood Cold Storage N.V., Kade 114, Rotterdam<br/>(the Customer)", CENTRED),
        Paragraph("and", CENTRED),
        Paragraph("Halvard &amp; Pine Data Services B.V., Stationsplein 9, Utrecht<br/>(the Supplier)", CENTRED),
        Spacer(1, 30 * mm),
        Paragraph("A sample made for the Longhaul project. The parties and all terms are invented.", CENTRED), PageBreak(),
        Paragraph("Contents", HEADING),
    ]
    flow += [Paragraph(f"Clause {number}. {escaped(name)}", CELL) for number, (name, _) in enumerate(CLAUSES, 1)]
    flow += [Paragraph(f"Schedule {number}. {escaped(name)}", CELL) for number, (name, _) in enumerate(ALL_SCHEDULES, 1)]
    flow += [
        PageBreak(), Paragraph("Background", HEADING),
        Paragraph("The Customer operates refrigerated warehouses at eleven sites. It depends on information systems that are available at all hours, since goods spoil when they are not moved, cooled and released in time.", BODY),
        Paragraph("The Supplier provides hosting and application services to companies in logistics. It has inspected the Customer\u2019s sites and systems and has presented a proposal, which the Customer has chosen after a tender.", BODY),
        Paragraph("The parties therefore agree as follows.", BODY),
    ]
    for number, (name, subclauses) in enumerate(CLAUSES, 1):
        flow.append(Paragraph(f"{number}. {escaped(name)}", HEADING))
        flow += [Paragraph(f"{number}.{at} {escaped(text)}", SUBCLAUSE) for at, text in enumerate(subclauses, 1)]
    flow += [PageBreak(), Paragraph("Signatures", HEADING)] + table(
        [("For the Customer", "For the Supplier"), ("Name:", "Name:"), ("Function:", "Function:"), ("Place and date:", "Place and date:"), ("Signature:", "Signature:")],
        document.width)
    for number, (name, make) in enumerate(ALL_SCHEDULES, 1):
        flow += [PageBreak(), Paragraph(f"Schedule {number}. {escaped(name)}", TITLE)]
        flow += blocks(make(), document.width)

    def furniture(canvas, made):
        canvas.setFont("Times-Italic", 9)
        canvas.drawString(32 * mm, A4[1] - 18 * mm, "Supplier Agreement, Brantwood Cold Storage and Halvard & Pine")
        canvas.drawCentredString(A4[0] / 2, 15 * mm, f"Page {made.page}")

    document.build(flow, onLaterPages=furniture)


def article(path):
    document = SimpleDocTemplate(
        str(path), pagesize=A4, leftMargin=30 * mm, rightMargin=30 * mm, topMargin=28 * mm, bottomMargin=28 * mm,
        title=ARTICLE[0], author="Longhaul", invariant=1)
    flow = [Paragraph(escaped(ARTICLE[0]), TITLE)] + blocks(ARTICLE[1], document.width)
    document.build(flow)


if __name__ == "__main__":
    agreement(HERE / "supplier-agreement.pdf")
    article(HERE.parent / "corpus" / "serverless-time-limits.pdf")
