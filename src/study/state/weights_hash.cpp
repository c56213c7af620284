#include <algorithm>
#include <span>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "base/text.hpp"
#include "checkpoint/source.hpp"
#include "study/run_study.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;

/// Returns the hash of the hashes of all pieces. The pieces are hashed in parallel.
std::uint64_t pieces_hash(std::span<const std::byte> bytes, Pool& pool) {
  std::vector<std::uint64_t> hashes((bytes.size() + kPiece - 1) / kPiece);
  pool.run(hashes.size(), [&](std::size_t piece, std::size_t /*worker*/) {
    const std::size_t first = piece * kPiece;
    hashes[piece] = content_hash(bytes.subspan(first, std::min(kPiece, bytes.size() - first)));
  });
  return content_hash(std::as_bytes(std::span(hashes)), bytes.size());
}

}  // namespace

std::uint64_t weights_hash(const Model& model, Pool& pool) {
  Checkpoint& weights = *model.source().weights;
  const auto tensors = weights.tensors();
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (model.tensor_uses()[i].role != TensorRole::parameter) continue;
    const TensorView tensor = weights.tensor(i);
    hash = content_hash(tensors[i].name, hash);
    hash = content_hash(name_of(tensor.dtype), hash);
    hash = content_hash(std::as_bytes(std::span(tensor.shape)), hash);
    const std::uint64_t values = pieces_hash(tensor.bytes, pool);
    hash = content_hash(std::as_bytes(std::span(&values, 1)), hash);
  }
  return hash;
}

std::uint64_t file_hash(const std::filesystem::path& path, Pool& pool) {
  const MappedFile file(path);
  return pieces_hash(file.bytes(), pool);
}

}  // namespace attnctl
