#pragma once

#include <cstdint>

#include "base/files/output_file.hpp"
#include "report/write_options.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes a document as one JSON object: a head field a line, in a section an item a line, in a matrix a row
/// a line. Numbers that are not finite become null. Arrays and tables are formatted in parallel and written
/// in order; memory stays at a few chunks of text however large they are.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// The same as JSON Lines: first a line with the head fields, then a line for each item of each section, with
/// "record" (Section::record) as its first field; an item that is no record is the field "value" of one.
/// Lines go out whole (OutputFile::write_whole_lines).
void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options = {});

}  // namespace attnctl
