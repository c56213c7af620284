#pragma once

#include <cstdint>

#include "base/files/output_file.hpp"
#include "report/write_options.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes a document as one JSON object: one line per head field, per item of a section, and per row of a
/// matrix. Numbers that are not finite become null. Arrays and tables are formatted in parallel and written
/// in order; only a few chunks of text are in memory at a time.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// Writes a document as JSON Lines: first a line with the head fields, then one line per item of each
/// section, with "record" (Section::record) as its first field. An item that is not a Record becomes the
/// field "value" of one. Only whole lines are written (OutputFile::write_whole_lines).
void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options = {});

}  // namespace attnctl
