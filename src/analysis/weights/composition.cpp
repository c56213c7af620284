#include "analysis/weights/composition.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/weights/circuit.hpp"
#include "analysis/weights/token_circuits.hpp"
#include "base/numbers.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

using Matrix = OwnedMatrix<double>;

/// Returns sum_t u_t e_t over all tokens t, [decoder.in, embedding width]. u_t is the column of token t in
/// the decoder (the matrix that computes the logits), and e_t is the row of token t in the token embedding.
Matrix over_vocabulary(const model::Model& model, Pool& pool) {
  const model::Lease<model::EmbeddingWeights> table_lease = model.embedding();
  const model::LookupTable& table = table_lease->token;
  const model::Lease<model::HeadWeights> decoder_lease = model.head();
  const model::Linear& decoder = decoder_lease->decoder;
  const std::size_t vocabulary = std::min(table.rows(), decoder.out());
  constexpr std::size_t most_tokens = 512;
  constexpr std::size_t block = 64;  // number of rows of the sum per task
  Matrix sum(decoder.in(), table.width());
  Matrix u(most_tokens, decoder.in());
  Matrix e(most_tokens, table.width());
  std::vector<std::vector<float>> rows(pool.size(), std::vector<float>(table.width()));
  for (std::size_t first = 0; first < vocabulary; first += most_tokens) {
    const std::size_t count = std::min(most_tokens, vocabulary - first);
    pool.run(count, [&](std::size_t task, std::size_t worker) {
      table.row(first + task, rows[worker]);
      std::ranges::copy(rows[worker], e.view().row(task).begin());
      for (std::size_t i = 0; i < decoder.in(); ++i)
        u(task, i) = static_cast<double>(decoder.orientation == model::Orientation::in_out
                                             ? decoder.stored(i, first + task)
                                             : decoder.stored(first + task, i));
    });
    pool.run((sum.rows() + block - 1) / block, [&](std::size_t task, std::size_t) {
      const std::size_t begin = task * block;
      const std::size_t height = std::min(block, sum.rows() - begin);
      linalg::gemm_tn(u.view().row_range(0, count).col_range(begin, height), e.view().row_range(0, count),
                      sum.view().row_range(begin, height), 1, 1);
    });
  }
  return sum;
}

/// Returns W_U W_E [d, d] (see ov_copying).
Matrix through_vocabulary(const model::Model& model, Pool& pool) {
  Matrix sum = over_vocabulary(model, pool);
  const model::Lease<model::HeadWeights> head = model.head();
  if (head->decoder.in() != model.config().d_model)
    sum = linalg::product(head->transform.in_out_double().view(), sum.view());
  const model::Lease<model::EmbeddingWeights> embedding = model.embedding();
  if (embedding->projection.present())
    sum = linalg::product(sum.view(), embedding->projection.in_out_double().view());
  return sum;
}

std::optional<double> copying_of(const CircuitFactors& ov, std::size_t head, const Matrix& vocabulary) {
  if (ov.left.dimension() != vocabulary.cols() || ov.right.dimension() != vocabulary.rows()) return {};
  const Matrix w_v = ov.left.columns(head);   // W_V^T of the head [v, d]
  const Matrix w_o = ov.right.columns(head);  // W_O of the head [v, d_out]
  const Matrix written = linalg::product(w_o.view(), vocabulary.view());
  const Matrix core = linalg::product_nt(written.view(), w_v.view());
  if (!linalg::all_finite(core.values())) return std::nullopt;
  double real = 0;
  double magnitude = 0;
  for (const std::complex<double>& value : linalg::eigenvalues(core.view())) {
    real += value.real();
    magnitude += std::abs(value);
  }
  if (magnitude == 0) return std::nullopt;
  return std::clamp(real / magnitude, -1.0, 1.0);
}

/// Returns R B^T / |R B^T|_F [r, dimension of b], where A = Q R is a QR decomposition. The smaller matrix R
/// B^T can replace A B^T in products with the B side: the Frobenius norm of the product is the same. `a` is
/// A^T and is overwritten; `b` is B^T. Empty if the result is zero or not finite.
OwnedMatrix<float> half_of(Matrix& a, const Matrix& b) {
  if (!linalg::all_finite(a.values()) || !linalg::all_finite(b.values())) return {};
  const Matrix triangle = linalg::triangle_of(a.view());
  const Matrix half = linalg::product_tn(triangle.view(), b.view());
  double norm = 0;  // computed with hypot, because squares could overflow or underflow
  for (const double value : half.values()) norm = std::hypot(norm, value);
  if (!(norm > 0) || !std::isfinite(norm)) return {};
  OwnedMatrix<float> scaled(half.rows(), half.cols());
  std::ranges::transform(half.values(), scaled.values().begin(),
                         [&](double value) { return static_cast<float>(value / norm); });
  return scaled;
}

struct LayerCircuits {
  std::optional<CircuitFactors> qk, ov;
};

/// Returns the reduced matrix that replaces the circuit L R^T of a head in products with its L side, or with
/// its R side if `towards_left` is false. Empty if the circuit is missing, zero or not finite.
OwnedMatrix<float> half_of(const std::optional<CircuitFactors>& factors, std::size_t head,
                           bool towards_left) {
  if (!factors) return {};
  const CircuitFactor& met = towards_left ? factors->left : factors->right;
  const CircuitFactor& far = towards_left ? factors->right : factors->left;
  Matrix far_columns = far.columns(head);
  return half_of(far_columns, met.columns(head));
}

/// Returns the Frobenius norm of a b^T.
double product_norm(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b) {
  const OwnedMatrix<float> product = linalg::product_nt(a.view(), b.view());
  double sum = 0;
  for (const float value : product.values()) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// The dimensions of a pair of heads. Pairs with the same dimensions have the same baseline.
struct PairShape {
  std::size_t read = 0;    // input dimension of the earlier head
  std::size_t value = 0;   // value width of the earlier head
  std::size_t stream = 0;  // output dimension of the earlier head = input dimension of the later head
  std::size_t width = 0;   // width of the factors of the later head's circuit
  std::size_t far = 0;     // the other dimension of the later head's circuit
  auto operator<=>(const PairShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};

RandomNull null_of(const PairShape& shape, const CompositionOptions& options, Pool& pool) {
  std::vector<double> scores(options.draws);
  pool.run(options.draws, [&](std::size_t draw, std::size_t) {
    Random random(options.seed, draw);
    Matrix w_v = random_matrix(shape.value, shape.read, 1, random);
    const Matrix w_o = random_matrix(shape.value, shape.stream, 1, random);
    Matrix far = random_matrix(shape.width, shape.far, 1, random);
    const Matrix near = random_matrix(shape.width, shape.stream, 1, random);
    scores[draw] = product_norm(half_of(w_v, w_o), half_of(far, near));
  });
  const auto count = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double variance = 0;
  for (const double score : scores) variance += (score - mean) * (score - mean) / count;
  return {mean, std::sqrt(variance)};
}

class Composer {
 public:
  Composer(const model::Model& model, const forward::Selection& selection, const CompositionOptions& options,
           Pool& pool)
      : heads_(selection.heads), options_(options), pool_(pool) {
    for (const std::size_t layer : selection.layers())
      layers_[layer] = {circuit_factors(model, layer, Circuit::qk, options.fold_norm),
                        circuit_factors(model, layer, Circuit::ov, options.fold_norm)};
    for (const CompositionKind kind : kAllCompositions) {
      Composition& composition = compositions_.emplace_back();
      composition.kind = kind;
      composition.heads = selection.heads;
      composition.scores = Matrix(heads_.size(), heads_.size());
      std::ranges::fill(composition.scores.values(), kUndefined);
      composition.excess = composition.scores;
    }
  }

  std::vector<Composition> run() {
    writing_.resize(heads_.size());
    pool_.run(heads_.size(), [&](std::size_t i, std::size_t) {
      // The OV circuit for products with its output side, for pairs in which this head is the earlier one.
      writing_[i] = half_of(layers_.at(heads_[i].layer).ov, heads_[i].head, false);
    });
    for (std::size_t first = 0, last = 0; first < heads_.size(); first = last) {
      while (last < heads_.size() && heads_[last].layer == heads_[first].layer) ++last;
      if (first > 0) meet_layer(first, last);
    }
    for (Composition& composition : compositions_) subtract_null(composition);
    return std::move(compositions_);
  }

 private:
  /// Computes the scores of all pairs of an earlier head and a later head. The later heads are [first, last),
  /// all in one layer; the earlier heads are all selected heads of lower layers.
  void meet_layer(std::size_t first, std::size_t last) {
    const std::size_t kinds = compositions_.size();
    const std::size_t count = last - first;
    const LayerCircuits& layer = layers_.at(heads_[first].layer);
    std::vector<OwnedMatrix<float>> reading(kinds * count);
    pool_.run(reading.size(), [&](std::size_t task, std::size_t) {
      const CompositionKind kind = compositions_[task / count].kind;
      const std::size_t head = heads_[first + task % count].head;
      reading[task] = kind == CompositionKind::value
                          ? half_of(layer.ov, head, true)
                          : half_of(layer.qk, head, kind == CompositionKind::query);
    });
    pool_.run(kinds * first, [&](std::size_t task, std::size_t) {
      const std::size_t kind = task / first;
      const std::size_t earlier = task % first;
      for (std::size_t j = 0; j < count; ++j) {
        const OwnedMatrix<float>& read = reading[kind * count + j];
        const OwnedMatrix<float>& written = writing_[earlier];
        if (read.rows() == 0 || written.rows() == 0 || read.cols() != written.cols()) continue;
        compositions_[kind].scores(earlier, first + j) = std::min(product_norm(written, read), 1.0);
      }
    });
  }

  [[nodiscard]] PairShape shape_of(CompositionKind kind, model::HeadId earlier, model::HeadId later) const {
    const CircuitFactors& writes = *layers_.at(earlier.layer).ov;
    const LayerCircuits& layer = layers_.at(later.layer);
    const CircuitFactors& reads = kind == CompositionKind::value ? *layer.ov : *layer.qk;
    const bool left = kind != CompositionKind::key;
    return {writes.left.dimension(), writes.left.width(), writes.right.dimension(), reads.left.width(),
            (left ? reads.right : reads.left).dimension()};
  }

  void subtract_null(Composition& composition) {
    double sum = 0;
    RandomNull all{0, 0};
    double pairs = 0;
    for (std::size_t a = 0; a < heads_.size(); ++a) {
      for (std::size_t b = 0; b < heads_.size(); ++b) {
        const double score = composition.scores(a, b);
        if (!std::isfinite(score)) continue;
        const PairShape shape = shape_of(composition.kind, heads_[a], heads_[b]);
        auto found = nulls_.find(shape);
        if (found == nulls_.end()) found = nulls_.emplace(shape, null_of(shape, options_, pool_)).first;
        composition.excess(a, b) = score - found->second.mean;
        sum += score;
        all.mean += found->second.mean;
        all.deviation += found->second.deviation * found->second.deviation;
        ++pairs;
      }
    }
    if (pairs == 0) return;
    composition.mean = sum / pairs;
    composition.null = {all.mean / pairs, std::sqrt(all.deviation / pairs)};
  }

  const std::vector<model::HeadId>& heads_;
  CompositionOptions options_;
  Pool& pool_;
  std::map<std::size_t, LayerCircuits> layers_;
  /// [heads]: the matrix of half_of() that replaces the head's OV circuit in products with its output side;
  /// empty if the circuit is missing, 0 or not finite.
  std::vector<OwnedMatrix<float>> writing_;
  std::vector<Composition> compositions_;
  std::map<PairShape, RandomNull> nulls_;
};

}  // namespace

std::vector<std::optional<double>> ov_copying(const model::Model& model, const forward::Selection& selection,
                                              bool fold_norm, Pool& pool, Warnings& warnings) {
  std::vector<std::optional<double>> scores(selection.heads.size());
  const std::string missing = missing_vocabulary_part(model);
  if (!missing.empty()) {
    warnings.add("no_copying", fmt::format("ov_copying is undefined: {}", missing));
    return scores;
  }
  std::map<std::size_t, std::optional<CircuitFactors>> layers;
  for (const std::size_t layer : selection.layers())
    layers.emplace(layer, circuit_factors(model, layer, Circuit::ov, fold_norm));
  const Matrix vocabulary = through_vocabulary(model, pool);
  pool.run(scores.size(), [&](std::size_t task, std::size_t) {
    const auto& ov = layers.at(selection.heads[task].layer);
    if (ov) scores[task] = copying_of(*ov, selection.heads[task].head, vocabulary);
  });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i]) continue;
    warnings.add(
        "undefined_copying",
        fmt::format(
            "ov_copying of head {} is undefined: its OV circuit is missing or does not have the dimensions "
            "of the embedding and the output head, or W_E OV W_U is not finite or has only zero eigenvalues",
            model::head_name(model.config(), selection.heads[i])));
  }
  return scores;
}

std::vector<Composition> analyze_composition(const model::Model& model, const forward::Selection& selection,
                                             const CompositionOptions& options, Pool& pool) {
  return Composer(model, selection, options, pool).run();
}

}  // namespace attnctl::analysis
