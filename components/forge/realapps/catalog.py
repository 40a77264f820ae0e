"""The skills over real applications, one line each; a workflow of the same id makes their tasks."""

from __future__ import annotations

from components.forge.skills import Skill

SKILLS: tuple[Skill, ...] = (
    Skill("calc-set-cell", "both", ("calc",), "Set one cell of a workbook."),
    Skill("calc-total", "both", ("calc",), "Put the sum of a column below it."),
    Skill("calc-banner-chart", "both", ("calc",), "Merge two banners, label them, add a column chart, save as new."),
    Skill("calc-bold-header", "both", ("calc",), "Make the first row bold."),
    Skill("calc-add-row", "both", ("calc",), "Add a row at the end of a sheet."),
    Skill("calc-new-sheet", "terminal", ("calc",), "Add a named sheet with one entry."),
    Skill("calc-sort", "terminal", ("calc",), "Sort the rows of a sheet by a column."),
    Skill("writer-heading", "both", ("writer",), "Make the first line a heading."),
    Skill("writer-append", "both", ("writer",), "Add a paragraph at the end."),
    Skill("writer-bold", "both", ("writer",), "Make one paragraph bold."),
    Skill("writer-replace", "terminal", ("writer",), "Replace a word everywhere."),
    Skill("writer-draft", "gui", ("writer",), "Add a line to the open document, which is saved for the agent."),
    Skill("impress-delete", "both", ("impress",), "Delete one slide."),
    Skill("impress-title", "terminal", ("impress",), "Change the title of a slide."),
    Skill("gimp-mirror", "both", ("gimp",), "Mirror a picture and export it under a new name."),
    Skill("gimp-layers", "both", ("gimp",), "Add alpha, clear the background, scale the layer, save with layers."),
    Skill("gimp-scale", "terminal", ("gimp",), "Scale a picture and export it."),
    Skill("gimp-gray", "terminal", ("gimp",), "Make a gray copy of a picture as JPEG."),
    Skill("files-rename", "both", ("files",), "Rename a file in the file manager."),
    Skill("files-move", "both", ("files",), "Move a file into a folder."),
    Skill("editor-append", "both", ("editor",), "Add a line at the end of a text file."),
    Skill("editor-new", "both", ("editor",), "Write a new text file."),
    Skill("shop-order", "both", ("browser",), "Order pieces of a product to a city."),
    Skill("shop-account", "both", ("browser",), "Change the account's city."),
    Skill("shop-cancel", "both", ("browser",), "Cancel the open order of a city."),
    Skill("shop-price", "cross", ("browser", "editor"), "Look up a price and write it down."),
    Skill("shop-stock", "terminal", ("browser",), "Look up how many pieces are in stock and write it down."),
    Skill("shop-to-sheet", "cross", ("browser", "calc"), "Prices of a category from the shop into a workbook."),
    Skill("text-to-writer", "cross", ("editor", "writer"), "A text file's lines into a document under a heading."),
    # Never trained on.
    Skill("csv-to-table", "cross", ("calc", "writer"), "A sheet as a table in a document.", held_out=True),
    Skill("deck-to-text", "cross", ("impress", "editor"), "The titles of all slides into a text file.", held_out=True),
    Skill("deck-and-file", "cross", ("impress", "files"), "Retitle a deck, then rename its file.", held_out=True),
    Skill("picture-and-file", "cross", ("gimp", "files"), "Export a mirrored picture, put the original into a folder.",
          held_out=True),
)  # fmt: skip

BY_ID: dict[str, Skill] = {skill.id: skill for skill in SKILLS}
