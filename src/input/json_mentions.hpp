#pragma once

#include "input/conllu.hpp"
#include "input/json_inputs.hpp"
#include "input/text_input.hpp"

namespace attnctl {

/// The annotation of a text with "mentions": a list of {"entity": text or number, "range": [begin, end)},
/// which may have "head": [begin, end) and "type": "pronoun", "proper" or "nominal"; ranges are code points.
/// Words are what white space parts, cut where mentions and heads begin and end; `input` gets them. A
/// mention's head is the last word of "head", or of the mention. No word has a HEAD. Throws Error(bad_input).
[[nodiscard]] ConlluSentence mentions_of(const JsonInput& object, TextInput& input);

}  // namespace attnctl
