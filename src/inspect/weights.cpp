#include "inspect/document.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "analysis/catalogue.hpp"
#include "analysis/weights/circuit.hpp"
#include "inspect/describe.hpp"
#include "inspect/head_order.hpp"

namespace attnctl::cli {
namespace {

/// Calls visit(analysis) for QK, and for OV if it was computed.
template <typename Visit>
void for_each_circuit(const WeightsAnalysis& weights, Visit&& visit) {
  visit(weights.qk);
  if (weights.ov) visit(*weights.ov);
}

/// Returns ranges as [[begin, end], ...].
List ranges_of(std::span<const TextRange> ranges) {
  List list;
  for (const TextRange& range : ranges)
    list.emplace_back(List{Value(std::size_t{range.begin}), Value(std::size_t{range.end})});
  return list;
}

void add_text(Record& record, const Sequence& sequence) {
  if (sequence.text) record.set("text", *sequence.text);
  if (sequence.text_pair) record.set("text_pair", *sequence.text_pair);
}

/// Adds the text ranges and the word indices of the tokens of a text.
void add_alignment(Record& record, const Sequence& sequence) {
  if (sequence.offsets.empty()) return;
  record.set("offsets", ranges_of(sequence.offsets));
  List words;
  for (const std::optional<std::size_t>& word : sequence.words) words.push_back(or_null(word));
  record.set("words", std::move(words));
  if (sequence.text_index.empty()) return;
  List texts;
  for (const std::optional<std::uint8_t>& text : sequence.text_index) {
    texts.push_back(text ? Value(std::size_t{*text}) : Value());
  }
  record.set("sequence_ids", std::move(texts));
}

/// Adds the input of the decoder.
void add_target(Record& record, const Sequence& target) {
  if (target.text) record.set("target_text", *target.text);
  if (!target.tokens.empty()) record.set("target_tokens", List(target.tokens.begin(), target.tokens.end()));
  record.set("target_ids", make_array({target.ids.size()}, target.ids))
      .set("target_length", target.queries());
}

Section inputs_section(const RunResults& results) {
  List items;
  for (const Sequence& sequence : results.batch.sequences) {
    Record record;
    record.set("id", sequence.id);
    add_text(record, sequence);
    if (sequence.units > 0) record.set("unit", "word");
    if (!sequence.tokens.empty()) {
      record.set("tokens", List(sequence.tokens.begin(), sequence.tokens.end()));
    }
    if (!sequence.ids.empty()) record.set("ids", make_array({sequence.ids.size()}, sequence.ids));
    add_alignment(record, sequence);
    record.set("length", sequence.queries());
    if (sequence.target) add_target(record, *sequence.target);
    if (sequence.truncated > 0) record.set("truncated", sequence.truncated);
    items.emplace_back(std::move(record));
  }
  return {"inputs", "input", std::move(items)};
}

Section similarity_section(const WeightsAnalysis& weights, const ModelConfig& config, HeadOrder order) {
  List items;
  for_each_circuit(weights, [&](const CircuitAnalysis& circuit) {
    for (const SubspaceSimilarity& each : circuit.similarity) {
      Record record;
      record.set("circuit", std::string(name_of(circuit.circuit)))
          .set("component", component_of(config, each.heads.front().layer))
          .set("layer", number_of(config, each.layer))
          .set("heads", names_of(config, each.heads))
          .set("values", float_array(each.values))
          .set("mean_off_diagonal", or_null(each.off_diagonal.mean))
          .set("mean_abs_off_diagonal", or_null(each.off_diagonal.mean_abs));
      if (order == HeadOrder::cluster) {
        record.set("order", names_of(config, in_cluster_order({each.layer, each.heads, each.values}).heads));
      }
      items.emplace_back(std::move(record));
    }
  });
  return {"subspace_similarity", "subspace_similarity", std::move(items)};
}

Section effective_ranks_section(const WeightsAnalysis& weights, const ModelConfig& config) {
  List items;
  for_each_circuit(weights, [&](const CircuitAnalysis& circuit) {
    for (auto first = circuit.heads.begin(); first != circuit.heads.end();) {
      const std::size_t layer = first->head.layer;
      const auto last = std::find_if(first, circuit.heads.end(),
                                     [&](const HeadSpectrum& head) { return head.head.layer != layer; });
      List names;
      List values;
      for (auto head = first; head != last; ++head) {
        names.emplace_back(head_name(config, head->head));
        values.push_back(or_null(head->effective_rank));
      }
      Record record;
      record.set("circuit", std::string(name_of(circuit.circuit)))
          .set("component", component_of(config, layer))
          .set("layer", number_of(config, layer))
          .set("heads", std::move(names))
          .set("values", std::move(values));
      items.emplace_back(std::move(record));
      first = last;
    }
  });
  return {"effective_ranks", "effective_ranks", std::move(items)};
}

Array array_of(const OwnedMatrix<float>& matrix) {
  const auto values = matrix.values();
  return make_array({matrix.rows(), matrix.cols()}, std::vector<float>(values.begin(), values.end()));
}

Section directions_section(const WeightsAnalysis& weights, const ModelConfig& config) {
  List items;
  for_each_circuit(weights, [&](const CircuitAnalysis& circuit) {
    for (const HeadSpectrum& head : circuit.heads) {
      const std::size_t count = head.left.rows();
      const std::span<const double> strongest = std::span(head.singular_values).first(count);
      Record record;
      record.set("head", head_name(config, head.head))
          .set("circuit", std::string(name_of(circuit.circuit)))
          .set("singular_values", float_array({count}, strongest))
          .set("left", array_of(head.left))
          .set("right", array_of(head.right));
      items.emplace_back(std::move(record));
    }
  });
  return {"principal_directions", "principal_directions", std::move(items)};
}

Section circuits_section(const RunResults& results) {
  List items;
  for (const Circuit circuit : {Circuit::qk, Circuit::ov}) {
    for (const HeadId head : results.selection.heads) {
      const auto factors = circuit_factors(results.model, head.layer, circuit, results.fold_norm);
      if (!factors) continue;
      Record record;
      record.set("head", head_name(results.config(), head))
          .set("circuit", std::string(name_of(circuit)))
          .set("values", float_array(form_circuit(*factors, head.head)));
      items.emplace_back(std::move(record));
    }
  }
  return {"circuits", "circuit", std::move(items)};
}

Section patterns_section(const RunResults& results) {
  List items;
  for (const InputArray& array : results.arrays) {
    if (array.name != "pattern") continue;
    const Sides sides = results.sides(array);
    const std::vector<HeadId>& heads = results.heads_of(array);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      Record record;
      record.set("input", results.batch.sequences[array.sequence].id)
          .set("head", head_name(results.config(), heads[i]))
          .set("queries", sides.queries())
          .set("keys", sides.keys())
          .set("values", item_of(array.array, i, 2));
      items.emplace_back(std::move(record));
    }
  }
  return {"patterns", "pattern", std::move(items)};
}

Section attention_from_section(const RunResults& results) {
  List items;
  for (const AttentionAnswer& answer : results.answers) {
    const Question& question = results.questions[answer.question];
    const Sequence& sequence = results.batch.sequences[question.positions.sequence];
    const Sides sides =
        results.sides(results.config().layers[answer.head.layer].component, question.positions.sequence);
    const auto token = [](std::span<const std::string> tokens, std::size_t position) {
      return position < tokens.size() ? Value(tokens[position]) : Value();
    };
    List top;
    for (const KeyWeight& key : answer.top) {
      Record record;
      record.set("key", key.key).set("token", token(sides.keys_of.tokens, key.key)).set("weight", key.weight);
      top.emplace_back(std::move(record));
    }
    List to;
    for (std::size_t i = 0; i < question.to.size(); ++i) {
      Record record;
      record.set("token", question.to[i]).set("weight", answer.to[i] ? Value(*answer.to[i]) : Value());
      to.emplace_back(std::move(record));
    }
    const std::size_t query = question.positions.from.front();
    Record record;
    record.set("input", sequence.id)
        .set("head", head_name(results.config(), answer.head))
        .set("query", query)
        .set("query_token", token(sides.queries_of.tokens, query))
        .set("top", std::move(top))
        .set("to", std::move(to));
    items.emplace_back(std::move(record));
  }
  return {"attention_from", "attention_from", std::move(items)};
}

/// Returns one record per head. Keys and values have one record per key/value head, and outputs one per
/// layer.
Section arrays_section(const RunResults& results) {
  const ModelConfig& config = results.config();
  List items;
  const auto add = [&](const InputArray& array, std::optional<std::size_t> layer, Value head,
                       const Array& values) {
    Record record;
    record.set("name", array.name)
        .set("input", results.batch.sequences[array.sequence].id)
        .set("component", component_of(config, layer))
        .set("layer", number_of(config, layer))
        .set("head", std::move(head))
        .set("shape", List(values.shape.begin(), values.shape.end()))
        .set("values", values);
    items.emplace_back(std::move(record));
  };
  for (const InputArray& array : results.arrays) {
    if (array.name == "pattern") continue;
    if (array.name == "logits") {
      add(array, std::nullopt, Value(), array.array);
    } else if (array.name == "output" || array.name == "keys" || array.name == "values") {
      const std::size_t axes = array.array.shape.size() - 1;
      const std::vector<std::size_t> layers = results.components[array.component].selection.layers();
      for (std::size_t i = 0; i < layers.size(); ++i)
        add(array, layers[i], Value(), item_of(array.array, i, axes));
    } else {
      const std::vector<HeadId>& heads = results.heads_of(array);
      for (std::size_t i = 0; i < heads.size(); ++i) {
        add(array, heads[i].layer, head_name(config, heads[i]), item_of(array.array, i, 2));
      }
    }
  }
  return {"arrays", "array", std::move(items)};
}

}  // namespace

Document analysis_document(const RunResults& results, const Session& session) {
  Document document;
  document.head.set("schema", "attnctl.analysis/1")
      .set("attnctl", tool_record(session))
      .set("model", model_record(results.model));
  if (results.weighting != Weighting::weights) {
    document.head.set("weighting", results.weighting == Weighting::norm ? "norm" : "norm-row");
  }
  const auto add = [&](Section section) { document.sections.push_back(std::move(section)); };
  if (!results.batch.sequences.empty()) add(inputs_section(results));
  if (results.has_heads()) {
    add({"metrics", "metric", metrics_table()});
    add({"heads", "head", results.heads(HeadColumns::named)});
  }
  if (results.weights && results.includes.weights) {
    add(similarity_section(*results.weights, results.config(), results.order));
    add(effective_ranks_section(*results.weights, results.config()));
  }
  if (results.weights && results.includes.directions)
    add(directions_section(*results.weights, results.config()));
  if (results.includes.circuits) add(circuits_section(results));
  if (results.includes.patterns) add(patterns_section(results));
  if (!results.questions.empty()) add(attention_from_section(results));
  for (const Results& part : results.parts) {
    for (const Section& section : part.document.sections) add(section);
  }
  Section arrays = arrays_section(results);
  if (!std::get<List>(arrays.items.data).empty()) add(std::move(arrays));
  return document;
}

}  // namespace attnctl::cli
