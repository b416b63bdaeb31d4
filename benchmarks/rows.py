# SPDX-License-Identifier: Apache-2.0
"""All rows, in the order of the page."""

import harness
import rows_compiled
import rows_generate
import rows_ops
import rows_start
import rows_train

FILES = (rows_start, rows_ops, rows_generate, rows_train, rows_compiled)
ROWS = {name: row for file in FILES for name, row in harness.ROWS.items() if row.measure.__module__ == file.__name__}
