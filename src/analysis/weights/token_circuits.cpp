#include "analysis/weights/token_circuits.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/layers/layers.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::analysis {
namespace {

using FloatMatrix = OwnedMatrix<float>;

constexpr std::size_t kBlock = 128;  // rows of a circuit that one task computes

FloatMatrix as_float(const OwnedMatrix<double>& values) {
  FloatMatrix rounded(values.rows(), values.cols());
  std::ranges::transform(values.values(), rounded.values().begin(),
                         [](double value) { return static_cast<float>(value); });
  return rounded;
}

/// Returns W_E M^T [tokens, rows of M] for the first `tokens` tokens, where M [rows, d] is given.
FloatMatrix embedded(const model::Model& model, std::size_t tokens, const OwnedMatrix<double>& matrix,
                     Pool& pool) {
  const model::Lease<model::EmbeddingWeights> embedding = model.embedding();
  const model::LookupTable& table = embedding->token;
  FloatMatrix right = as_float(matrix);
  if (embedding->projection.present())
    right = as_float(linalg::product_nt(matrix.view(), embedding->projection.in_out_double().view()));
  FloatMatrix result(tokens, right.rows());
  pool.run((tokens + kBlock - 1) / kBlock, [&](std::size_t task, std::size_t) {
    const std::size_t first = task * kBlock, count = std::min(kBlock, tokens - first);
    FloatMatrix rows(count, table.width());
    for (std::size_t i = 0; i < count; ++i) table.row(first + i, rows.view().row(i));
    linalg::gemm_nt(rows.view(), right.view(), result.view().row_range(first, count));
  });
  return result;
}

/// Returns (M W_U)^T [tokens, rows of M] for the first `tokens` tokens, where M [rows, d] is given.
FloatMatrix decoded(const model::Model& model, std::size_t tokens, const OwnedMatrix<double>& matrix,
                    Pool& pool) {
  const model::Lease<model::HeadWeights> head = model.head();
  FloatMatrix left = as_float(matrix);
  if (head->decoder.in() != model.config().d_model)
    left = as_float(linalg::product(matrix.view(), head->transform.in_out_double().view()));
  FloatMatrix result(tokens, left.rows());
  pool.run((tokens + kBlock - 1) / kBlock, [&](std::size_t task, std::size_t) {
    const std::size_t first = task * kBlock, count = std::min(kBlock, tokens - first);
    const FloatMatrix slice = as_float(head->decoder.outputs(first, count).in_out_double());
    linalg::gemm<float>(true, true, slice.view(), left.view(), result.view().row_range(first, count), 1, 0);
  });
  return result;
}

/// What one block of rows of a circuit contributes.
struct ScannedRows {
  std::vector<TokenPair> best;  // in descending order
  std::size_t copied = 0, suppressed = 0;
};

bool is_earlier_pair(const TokenPair& a, const TokenPair& b) {
  return std::tuple(-a.value, a.from, a.to) < std::tuple(-b.value, b.from, b.to);
}

/// Adds the elements of a row that belong to the `most` largest ones.
void add_best(std::vector<TokenPair>& best, std::int64_t from, std::span<const float> row, std::size_t most) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : row) largest = value > largest ? value : largest;
  if (most == 0 || (best.size() == most && largest <= best.back().value)) return;
  for (std::size_t to = 0; to < row.size(); ++to) {
    if (!std::isfinite(row[to]) || (best.size() == most && row[to] <= best.back().value)) continue;
    const TokenPair pair{from, static_cast<std::int64_t>(to), row[to]};
    best.insert(std::ranges::upper_bound(best, pair, is_earlier_pair), pair);
    if (best.size() > most) best.pop_back();
  }
}

/// One circuit: its element of tokens a and b is the dot product of the rows left(a) and right(b).
struct TokenSides {
  FloatMatrix left, right;
};

/// Returns the number of tokens that are copied and suppressed, and the largest elements of a circuit.
ScannedRows scan(const TokenSides& sides, const TokenCircuitOptions& options, Pool& pool) {
  const std::size_t tokens = sides.left.rows();
  const auto left_out = [&](std::size_t token) {
    return token < options.left_out.size() && options.left_out[token];
  };
  std::vector<ScannedRows> blocks((tokens + kBlock - 1) / kBlock);
  std::vector<FloatMatrix> buffers(pool.size());
  pool.run(blocks.size(), [&](std::size_t task, std::size_t worker) {
    const std::size_t first = task * kBlock, count = std::min(kBlock, tokens - first);
    if (buffers[worker].rows() == 0) buffers[worker] = FloatMatrix(std::min(kBlock, tokens), tokens);
    const MatrixView<float> rows = buffers[worker].view().row_range(0, count);
    linalg::gemm_nt(sides.left.view().row_range(first, count), sides.right.view(), rows);
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<float> row = rows.row(i);
      if (left_out(first + i)) continue;
      for (std::size_t t = 0; t < options.left_out.size() && t < tokens; ++t) {
        // Comparisons with NaN are false, so these elements are in no count.
        if (options.left_out[t]) row[t] = std::numeric_limits<float>::quiet_NaN();
      }
      add_best(blocks[task].best, static_cast<std::int64_t>(first + i), row, options.pairs);
      const float own = row[first + i];
      if (!std::isfinite(own)) continue;
      std::size_t not_lower = 0, not_higher = 0;  // both count the token itself
      for (const float value : row) {
        not_lower += value >= own ? 1 : 0;
        not_higher += value <= own ? 1 : 0;
      }
      blocks[task].copied += not_lower <= options.top ? 1 : 0;
      blocks[task].suppressed += not_higher <= options.top ? 1 : 0;
    }
  });
  ScannedRows all;
  for (const ScannedRows& block : blocks) {
    all.copied += block.copied;
    all.suppressed += block.suppressed;
    all.best.insert(all.best.end(), block.best.begin(), block.best.end());
  }
  std::ranges::sort(all.best, is_earlier_pair);
  all.best.resize(std::min(all.best.size(), options.pairs));
  return all;
}

/// Returns the rows of the tokens of a list.
FloatMatrix rows_of(const FloatMatrix& rows, const TokenList& list) {
  FloatMatrix chosen(list.size(), rows.cols());
  for (std::size_t i = 0; i < list.size(); ++i)
    std::ranges::copy(rows.view().row(static_cast<std::size_t>(list[i])), chosen.view().row(i).begin());
  return chosen;
}

std::optional<double> successor_share(const TokenSides& ov, std::span<const TokenList> successions) {
  std::size_t pairs = 0, found = 0;
  for (const TokenList& list : successions) {
    const FloatMatrix logits =
        linalg::product_nt(rows_of(ov.left, list).view(), rows_of(ov.right, list).view());
    for (std::size_t i = 0; i + 1 < list.size(); ++i, ++pairs) {
      bool highest = true;
      for (std::size_t j = 0; j < list.size(); ++j)
        highest &= j == i || j == i + 1 || logits(i, j) < logits(i, i + 1);
      found += highest ? 1 : 0;
    }
  }
  if (pairs == 0) return std::nullopt;
  return static_cast<double>(found) / static_cast<double>(pairs);
}

/// Returns the mean of the embeddings of all tokens, as the model reads it.
std::vector<float> mean_embedding(const model::Model& model) {
  const model::Lease<model::EmbeddingWeights> embedding = model.embedding();
  const model::LookupTable& table = embedding->token;
  std::vector<float> row(table.width());
  std::vector<double> sum(table.width());
  for (std::size_t t = 0; t < table.rows(); ++t) {
    table.row(t, row);
    for (std::size_t c = 0; c < row.size(); ++c) sum[c] += double{row[c]};
  }
  const double factor = double{model.config().embedding.multiplier} / static_cast<double>(table.rows());
  for (std::size_t c = 0; c < row.size(); ++c) row[c] = static_cast<float>(sum[c] * factor);
  return row;
}

/// Adds the weights on the previous token of the heads of a layer.
class PreviousToken final : public forward::Observer {
 public:
  PreviousToken(std::span<const model::HeadId> heads, std::vector<PositionPattern>& to)
      : heads_(heads), to_(to) {}

  void panel(const forward::AttentionPanel& panel) override {
    const auto head = std::ranges::find(heads_, model::HeadId{panel.layer, panel.head}) - heads_.begin();
    const auto queries = static_cast<double>(panel.pattern.cols - 1);
    double& previous = to_[static_cast<std::size_t>(head)].previous;
    if (panel.first_query == 0) previous = 0;
    for (std::size_t r = 0; r < panel.pattern.rows; ++r)
      if (panel.first_query + r > 0)
        previous += double{panel.pattern(r, panel.first_query + r - 1)} / queries;
  }

 private:
  std::span<const model::HeadId> heads_;
  std::vector<PositionPattern>& to_;
};

}  // namespace

std::string missing_vocabulary_part(const model::Model& model) {
  if (!model.embedding()->token.present()) return "the checkpoint has no token embedding";
  const model::Lease<model::HeadWeights> head = model.head();
  if (!head->decoder.present()) return "the checkpoint has no output head";
  const std::size_t d = model.config().d_model;
  const bool fits = head->decoder.in() == d || (head->transform.present() && head->transform.in() == d &&
                                                head->transform.out() == head->decoder.in());
  if (fits) return {};
  return fmt::format("the output head reads {} dimensions, but the layers write {}", head->decoder.in(), d);
}

std::size_t compared_tokens(const model::Model& model) {
  const model::Lease<model::EmbeddingWeights> embedding = model.embedding();
  if (!embedding->token.present()) return 0;
  if (!missing_vocabulary_part(model).empty()) return embedding->token.rows();
  return std::min(embedding->token.rows(), model.head()->decoder.out());
}

std::optional<double> successor_null(std::span<const TokenList> successions) {
  double sum = 0;
  std::size_t pairs = 0;
  for (const TokenList& list : successions) {
    if (list.size() < 2) continue;
    pairs += list.size() - 1;
    sum += 1;  // size - 1 pairs, each with the chance 1 / (size - 1)
  }
  if (pairs == 0) return std::nullopt;
  return sum / static_cast<double>(pairs);
}

std::uint64_t token_circuit_bytes(std::uint64_t tokens, std::uint64_t width, std::uint64_t threads) {
  const std::uint64_t columns = 2 * width + threads * std::min<std::uint64_t>(kBlock, tokens);
  return saturating_product(saturating_product(tokens, columns), std::uint64_t{sizeof(float)});
}

std::vector<PositionPattern> position_patterns(const model::Model& model,
                                               std::span<const model::HeadId> heads,
                                               forward::RunContext context) {
  constexpr std::size_t kTokens = 32;
  const model::ModelConfig& config = model.config();
  std::vector<PositionPattern> patterns(heads.size());
  const std::size_t n = std::min(kTokens, config.max_positions.value_or(kTokens));
  if (!model.embedding()->token.present() || n < 2) return patterns;
  input::Batch batch;
  input::Sequence& sequence = batch.sequences.emplace_back();
  const std::vector<float> mean = mean_embedding(model);
  sequence.embeddings = FloatMatrix(n, mean.size());
  for (std::size_t r = 0; r < n; ++r) std::ranges::copy(mean, sequence.embeddings.view().row(r).begin());
  FloatMatrix x(n, config.d_model);
  forward::embed(context.pool, model, batch, forward::cut_into_blocks(batch, n).front(), x.view());
  context.progress = nullptr;
  PreviousToken observer(heads, patterns);
  forward::Observer* const observers[] = {&observer};
  for (const std::size_t layer : forward::Selection{{heads.begin(), heads.end()}}.layers()) {
    const model::LayerConfig& of_layer = config.layers[layer];
    if (forward::needs_target(of_layer.component)) continue;
    FloatMatrix stream = x;
    if (of_layer.place == model::NormPlace::stream) {
      const model::Lease<model::LayerWeights> weights = model.layer(layer, &context.pool);
      forward::apply_norm(context.pool, of_layer.norm, weights->attention_norm, stream.view(), stream.view());
    }
    const std::vector<forward::SequenceStart> start = {{std::as_const(stream).view(), {}, {}}};
    forward::Selection selection;
    std::ranges::copy_if(heads, std::back_inserter(selection.heads),
                         [&](model::HeadId head) { return head.layer == layer; });
    forward::run_forward(model, batch, selection, observers, context, {.layer = layer, .start = start});
    const forward::VisibleKeys visible(of_layer.attention, sequence);
    double even = 0;
    for (std::size_t i = 1; i < n; ++i)
      if (visible.count(i, i - 1, i) > 0)
        even += 1 / static_cast<double>(visible.count(i)) / static_cast<double>(n - 1);
    for (std::size_t h = 0; h < heads.size(); ++h)
      if (heads[h].layer == layer) patterns[h].even = even;
  }
  return patterns;
}

std::vector<TokenCircuits> analyze_token_circuits(const model::Model& model,
                                                  std::span<const model::HeadId> heads,
                                                  const TokenCircuitOptions& options, Pool& pool) {
  const model::Lease<model::EmbeddingWeights> embedding = model.embedding();
  if (!embedding->token.present())
    fail(Status::bad_input,
         "{}: the checkpoint has no token embedding, so its heads have no circuits between tokens",
         escaped(model.name()));
  const std::size_t width =
      embedding->projection.present() ? embedding->projection.out() : embedding->token.width();
  const std::size_t tokens = compared_tokens(model);
  const bool has_logits = missing_vocabulary_part(model).empty();
  std::size_t compared = tokens;
  for (std::size_t t = 0; t < std::min(tokens, options.left_out.size()); ++t)
    compared -= options.left_out[t] ? 1 : 0;

  std::optional<std::size_t> layer;  // of qk and ov
  std::optional<CircuitFactors> qk, ov;
  std::vector<TokenCircuits> all;
  for (const model::HeadId head : heads) {
    TokenCircuits& result = all.emplace_back();
    result.tokens = compared;
    if (layer != head.layer) {
      layer = head.layer;
      qk = circuit_factors(model, head.layer, Circuit::qk, options.fold_norm);
      ov = circuit_factors(model, head.layer, Circuit::ov, options.fold_norm);
    }
    if (qk && qk->left.dimension() == width && qk->right.dimension() == width) {
      const TokenSides sides{embedded(model, tokens, qk->left.columns(head.head), pool),
                             embedded(model, tokens, qk->right.columns(head.head), pool)};
      result.matched = scan(sides, options, pool).best;
    }
    if (!has_logits || compared == 0 || !ov || ov->left.dimension() != width ||
        ov->right.dimension() != model.config().d_model)
      continue;
    const TokenSides sides{embedded(model, tokens, ov->left.columns(head.head), pool),
                           decoded(model, tokens, ov->right.columns(head.head), pool)};
    ScannedRows block = scan(sides, options, pool);
    result.copied = static_cast<double>(block.copied) / static_cast<double>(compared);
    result.suppressed = static_cast<double>(block.suppressed) / static_cast<double>(compared);
    result.successor = successor_share(sides, options.successions);
    result.promoted = std::move(block.best);
  }
  return all;
}

}  // namespace attnctl::analysis
