#include "analysis/weights/token_circuits.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "base/text.hpp"
#include "inspect/attribute.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using analysis::TokenCircuits;
using analysis::TokenList;

constexpr std::size_t kPairs = 5;
constexpr std::size_t kMostPairs = 1000;

/// Words that follow each other, as lists of words separated by spaces.
constexpr std::array<std::string_view, 7> kSuccessions = {
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
    "one two three four five six seven eight nine ten eleven twelve",
    "first second third fourth fifth sixth seventh eighth ninth tenth",
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "i ii iii iv v vi vii viii ix x"};

/// Returns each list that begins with at least three words of the vocabulary, in all its spellings: with and
/// without the mark of a word's first token, in small letters, with a capital, and in capitals. A list ends
/// before the first word that is not a token.
std::vector<TokenList> successions_of(const tokenizer::Vocabulary& vocabulary, std::size_t tokens) {
  std::vector<TokenList> lists;
  for (const std::string_view words : kSuccessions) {
    for (const std::string_view mark : {"", "\u0120", "\u2581"}) {
      for (const int capitals : {0, 1, 2}) {
        TokenList list;
        for (const std::string_view word : split(words, ' ')) {
          std::string text(word);
          for (std::size_t i = 0; i < text.size() && (capitals == 2 || (capitals == 1 && i == 0)); ++i)
            if (text[i] >= 'a' && text[i] <= 'z') text[i] = static_cast<char>(text[i] - 'a' + 'A');
          const auto id = vocabulary.id(std::string(mark) + text);
          if (!id || static_cast<std::size_t>(*id) >= tokens) break;
          list.push_back(*id);
        }
        if (list.size() >= 3 && std::ranges::find(lists, list) == lists.end()) lists.push_back(list);
      }
    }
  }
  return lists;
}

class TokenCircuitsAnalysis final : public Analysis {
 public:
  using Analysis::Analysis;

  std::uint64_t values() const override {
    const model::Model& model = input_.model;
    const bool has_logits = analysis::missing_vocabulary_part(model).empty();
    std::uint64_t tokens = analysis::compared_tokens(model);
    for (std::uint64_t t = tokens; t-- > 0;)
      tokens -= input_.vocabulary.is_special(static_cast<std::int64_t>(t)) ? 1 : 0;
    const std::uint64_t circuits = has_logits ? 2 : 1;
    const std::uint64_t lines = circuits * std::min<std::uint64_t>(pairs(), tokens * tokens);
    return input_.selection.heads.size() * (12 + 9 * lines);  // the columns of both tables
  }

  std::uint64_t bytes() const override {
    std::size_t width = 0;
    for (const model::LayerConfig& layer : input_.config().layers)
      width = std::max({width, layer.attention.d_head, layer.attention.d_value});
    return saturating_sum(analysis::token_circuit_bytes(analysis::compared_tokens(input_.model), width,
                                                        input_.context.pool.size()),
                          input_.model.head_bytes());
  }

  Results finish() override {
    const model::Model& model = input_.model;
    const std::string missing = analysis::missing_vocabulary_part(model);
    analysis::TokenCircuitOptions options{.fold_norm = input_.request.weights.fold_norm, .pairs = pairs()};
    const std::size_t tokens = analysis::compared_tokens(model);
    for (std::size_t t = 0; t < tokens; ++t)
      options.left_out.push_back(input_.vocabulary.is_special(static_cast<std::int64_t>(t)));
    options.successions = successions_of(input_.vocabulary, tokens);
    const std::vector<TokenCircuits> circuits =
        analysis::analyze_token_circuits(model, input_.selection.heads, options, input_.context.pool);
    if (!missing.empty())
      input_.context.warnings.add(
          "no_copying", fmt::format("copied, suppressed, successor and promoted are undefined: {}", missing));

    const std::vector<analysis::PositionPattern> positions =
        analysis::position_patterns(model, input_.selection.heads, input_.context);

    TableRows heads{"token_circuits", columns_of(kTokenCircuitColumns,
                                                 {"tokens", "copied", "suppressed", "null_mean", "successor",
                                                  "successor_null", "previous", "previous_null"})};
    TableRows pairs{"token_pairs",
                    columns_of(kTokenCircuitColumns, {"circuit", "component", "layer", "head", "name",
                                                      "place", "from", "to", "value"})};
    TableRows text{"", {"head", "OV: attends to", "promotes", "value", "QK: query", "key", "value"}};
    const std::optional<double> null = analysis::successor_null(options.successions);
    for (std::size_t h = 0; h < circuits.size(); ++h) {
      const TokenCircuits& each = circuits[h];
      const model::HeadId head = input_.selection.heads[h];
      const double share =
          each.tokens == 0
              ? kUndefined
              : std::min(1.0, static_cast<double>(options.top) / static_cast<double>(each.tokens));
      heads.add(each.tokens, each.copied, each.suppressed, each.copied ? share : kUndefined, each.successor,
                each.successor ? null : std::nullopt, positions[h].previous, positions[h].even);
      add_pairs(pairs, "ov", head, each.promoted);
      add_pairs(pairs, "qk", head, each.matched);
      for (std::size_t i = 0; i < std::max(each.promoted.size(), each.matched.size()); ++i) {
        std::vector<Cell>& row = text.add(i == 0 ? model::head_name(input_.config(), head) : std::string());
        for (const std::vector<analysis::TokenPair>* list : {&each.promoted, &each.matched}) {
          if (i < list->size())
            add_cells(row, std::array{cell(list->at(i).from), cell(list->at(i).to),
                                      analysis::cell_of(double{list->at(i).value})});
          else
            add_cells(row, std::array{Cell(), Cell(), Cell()});
        }
      }
    }
    Results results = results_of_heads(
        input_,
        fmt::format("Tokens that heads copy or suppress (own logit among the {} highest or lowest)",
                    options.top),
        heads);
    results.add_table("token_pair", pairs.table());
    if (has_pictures(input_.request.form))
      results.pictures.push_back(
          {"token_circuits",
           heads_page(results, missing.empty() ? "token_circuits.copied" : "token_circuits.previous", true)});
    results.text.emplace_back(TextTable{"Largest elements of W_E OV W_U and W_E QK W_E^T", text.table(), 3});
    return results;
  }

 private:
  [[nodiscard]] std::size_t pairs() const {
    return std::min(input_.request.top.value_or(kPairs), kMostPairs);
  }
  [[nodiscard]] Cell cell(std::int64_t token) const { return token_text(input_.vocabulary, token); }
  void add_pairs(TableRows& rows, std::string_view circuit, model::HeadId head,
                 const std::vector<analysis::TokenPair>& list) const {
    for (std::size_t i = 0; i < list.size(); ++i)
      rows.add(circuit, analysis::head_cells(input_.config(), head), i, cell(list[i].from), cell(list[i].to),
               double{list[i].value});
  }
};

}  // namespace

constexpr std::array<Definition, 12> kTokenCircuitColumns = {
    {{"tokens", "", "from 0", "", "number of tokens that are compared: all but special tokens"},
     {"copied", "", "[0, 1]", "null_mean",
      "share of the tokens t whose own logit is among the 5 highest of row t of W_E OV W_U",
      "Gould et al. 2023"},
     {"suppressed", "", "[0, 1]", "null_mean",
      "share of the tokens t whose own logit is among the 5 lowest of row t of W_E OV W_U",
      "McDougall et al. 2023"},
     {"null_mean", "", "[0, 1]", "", "5 / tokens: both shares with random logits"},
     {"successor", "", "[0, 1]", "successor_null",
      "share of pairs of neighbours (Monday, Tuesday; 3, 4) whose second token has the highest logit of its "
      "list in the "
      "row of the first token, which is left out",
      "Gould et al. 2023"},
     {"successor_null", "", "[0, 1]", "",
      "successor with random logits: mean of 1 / (tokens of the list - 1)"},
     {"previous", "", "[0, 1]", "previous_null",
      "mean weight on the previous token in a text whose tokens all have the mean embedding, so that only "
      "positions count; each layer reads the embedding"},
     {"previous_null", "", "[0, 1]", "", "previous for even weights over the visible keys"},
     {"place", "", "from 0", "", "place of the pair among those of the head, the largest value first"},
     {"from", "", "", "", "OV: the token that is attended to; QK: the token of the query"},
     {"to", "", "", "", "OV: the token whose logit is raised; QK: the token of the key"},
     {"value", "", "(-inf, inf)", "", "element of W_E OV W_U, or of W_E QK W_E^T"}}};

std::unique_ptr<Analysis> make_token_circuits(const AnalysisInput& input) {
  return std::make_unique<TokenCircuitsAnalysis>(input);
}

}  // namespace attnctl::inspect
