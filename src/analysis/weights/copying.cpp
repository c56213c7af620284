#include "analysis/weights/copying.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/weights/circuit.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

using Matrix = OwnedMatrix<double>;

MatrixView<const double> view(const Matrix& matrix) {
  return matrix.view();
}

/// Returns the reason why the model has no copying score. Empty if it has one.
std::string missing_part(const Model& model) {
  const Lease<EmbeddingWeights> embedding_lease = model.embedding();
  const EmbeddingWeights& embedding = *embedding_lease;
  if (!embedding.token.present()) return "the checkpoint has no token embedding";
  const Lease<HeadWeights> head_lease = model.head();
  const HeadWeights& head = *head_lease;
  if (!head.decoder.present()) return "the checkpoint has no output head";
  const std::size_t d = model.config().d_model;
  const bool fits = head.decoder.in() == d || (head.transform.present() && head.transform.in() == d &&
                                               head.transform.out() == head.decoder.in());
  if (!fits) {
    return fmt::format("its output head reads {} dimensions, the layers write {}", head.decoder.in(), d);
  }
  return {};
}

/// Returns sum_t u_t^T e_t over the tokens t, [decoder.in, embedding width]. u_t is the column of the
/// decoder, e_t the row of the embedding.
Matrix over_vocabulary(const Model& model, Pool& pool) {
  const Lease<EmbeddingWeights> table_lease = model.embedding();
  const LookupTable& table = table_lease->token;
  const Lease<HeadWeights> decoder_lease = model.head();
  const Linear& decoder = decoder_lease->decoder;
  const std::size_t vocabulary = std::min(table.rows(), decoder.out());
  constexpr std::size_t most_tokens = 512;
  constexpr std::size_t block = 64;  // rows of the sum per task
  Matrix sum(decoder.in(), table.width());
  Matrix u(most_tokens, decoder.in());
  Matrix e(most_tokens, table.width());
  std::vector<std::vector<float>> rows(pool.size(), std::vector<float>(table.width()));
  for (std::size_t first = 0; first < vocabulary; first += most_tokens) {
    const std::size_t count = std::min(most_tokens, vocabulary - first);
    pool.run(count, [&](std::size_t task, std::size_t worker) {
      table.row(first + task, rows[worker]);
      std::ranges::copy(rows[worker], e.view().row(task).begin());
      for (std::size_t i = 0; i < decoder.in(); ++i) {
        u(task, i) =
            static_cast<double>(decoder.orientation == Orientation::in_out ? decoder.stored(i, first + task)
                                                                           : decoder.stored(first + task, i));
      }
    });
    pool.run((sum.rows() + block - 1) / block, [&](std::size_t task, std::size_t) {
      const std::size_t begin = task * block;
      const std::size_t height = std::min(block, sum.rows() - begin);
      gemm_tn(view(u).row_range(0, count).col_range(begin, height), view(e).row_range(0, count),
              sum.view().row_range(begin, height), 1, 1);
    });
  }
  return sum;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows(), b.cols());
  gemm_nn(view(a), view(b), result.view());
  return result;
}

/// Returns W_U W_E [d, d], the map of a stream direction that is decoded to logits and embedded again.
Matrix through_vocabulary(const Model& model, Pool& pool) {
  Matrix sum = over_vocabulary(model, pool);
  const Lease<HeadWeights> head_lease = model.head();
  const HeadWeights& head = *head_lease;
  if (head.decoder.in() != model.config().d_model) sum = product(head.transform.in_out_double(), sum);
  const Lease<EmbeddingWeights> projection_lease = model.embedding();
  const Linear& projection = projection_lease->projection;
  if (projection.present()) sum = product(sum, projection.in_out_double());
  return sum;
}

std::optional<double> score_of(std::span<const std::complex<double>> eigenvalues) {
  double real = 0;
  double magnitude = 0;
  for (const std::complex<double>& value : eigenvalues) {
    real += value.real();
    magnitude += std::abs(value);
  }
  if (magnitude == 0) return std::nullopt;
  return std::clamp(real / magnitude, -1.0, 1.0);
}

std::optional<double> copying_of(const CircuitFactors& ov, std::size_t head, const Matrix& vocabulary) {
  if (ov.left.dimension() != vocabulary.cols() || ov.right.dimension() != vocabulary.rows()) return {};
  Matrix w_v(ov.left.width(), ov.left.dimension());    // transposed
  Matrix w_o(ov.right.width(), ov.right.dimension());  // not transposed
  ov.left.read_columns(head, w_v.view());
  ov.right.read_columns(head, w_o.view());
  const Matrix written = product(w_o, vocabulary);
  Matrix core(w_o.rows(), w_v.rows());
  gemm_nt(view(written), view(w_v), core.view());
  if (!std::ranges::all_of(core.values(), [](double value) { return std::isfinite(value); }))
    return std::numeric_limits<double>::quiet_NaN();
  return score_of(eigenvalues(view(core)));
}

}  // namespace

std::vector<std::optional<double>> ov_copying(const Model& model, const Selection& selection, bool fold_norm,
                                              Pool& pool, Warnings& warnings) {
  std::vector<std::optional<double>> scores(selection.heads.size());
  const std::string missing = missing_part(model);
  if (!missing.empty()) {
    warnings.add("no_copying", fmt::format("ov_copying is undefined: {}", missing));
    return scores;
  }
  std::map<std::size_t, std::optional<CircuitFactors>> layers;
  for (const std::size_t layer : selection.layers()) {
    layers.emplace(layer, circuit_factors(model, layer, Circuit::ov, fold_norm));
  }
  const Matrix vocabulary = through_vocabulary(model, pool);
  pool.run(scores.size(), [&](std::size_t task, std::size_t) {
    const auto& ov = layers.at(selection.heads[task].layer);
    if (ov) scores[task] = copying_of(*ov, selection.heads[task].head, vocabulary);
  });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i]) continue;
    warnings.add(
        "undefined_copying",
        fmt::format("ov_copying of head {} is undefined: its OV circuit is missing, zero, not finite or "
                    "of other dimensions than the vocabulary's",
                    to_string(selection.heads[i])));
  }
  return scores;
}

}  // namespace attnctl
