#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Checks the rules of docs/architecture.md that a compiler does not check.
namespace attnctl::test {

/// Checks one source file. `path` is relative to the project ("src/forward/run.cpp"); files outside of src
/// have no rules. Returns a sentence for each violation of these rules:
///  - A folder includes only folders to its left (base; linalg, checkpoint, tokenizer; input; model; ...).
///  - Only linalg/ includes BLAS, LAPACK and SIMD headers, and only cli/ includes the option parser.
///  - The namespace of a file is attnctl::FOLDER; attnctl in base/ and results/; attn in api/. A block that
///    contains only `class X;` or `struct X;` may have the namespace of another folder.
///  - Only the family table (src/model/families) names model families in code.
[[nodiscard]] std::vector<std::string> source_breaches(std::string_view path, std::string_view text);

/// Removes the comments of C++ source and keeps everything else, also string literals.
[[nodiscard]] std::string without_comments(std::string_view text);

}  // namespace attnctl::test
