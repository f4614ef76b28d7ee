// Samples whose large fields and tensors are on a node of a cluster. The sample in this process has what is small, and
// a field kRemote that stands for the rest. Its bytes are a RemotePieces, which clones of the sample share: it ends
// with the last of them. Neither stages nor the pipeline's owner see it.
#pragma once
#include <memory>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::engines {

inline constexpr const char* kRemote = "kinora.remote";
// Of a sample that its node has stored: {"folder", "files"} of its outcome (abi/engine.h), which it is for.
inline constexpr const char* kStored = "kinora.stored";

struct RemotePiece {
  uint64_t id = 0;  // of all pieces of the run
  uint64_t bytes = 0;
  size_t node = 0;
};

class RemotePieces {
 public:
  explicit RemotePieces(std::vector<RemotePiece> pieces) : pieces_(std::move(pieces)) {}
  virtual ~RemotePieces() = default;
  const std::vector<RemotePiece>& pieces() const { return pieces_; }

 private:
  const std::vector<RemotePiece> pieces_;
};

// Null if all of the sample is here.
inline const RemotePieces* remote_of(const Sample& sample) {
  const auto bytes = sample.bytes(kRemote);
  return bytes ? reinterpret_cast<const RemotePieces*>(bytes->data()) : nullptr;
}

// The sample's remote part is `pieces` from now on.
inline void set_remote(Sample& sample, std::unique_ptr<const RemotePieces> pieces) {
  const RemotePieces* kept = pieces.get();
  check(samples_api().set(
      sample.get(), kRemote, {kept, sizeof *kept},
      [](void* user) { delete static_cast<RemotePieces*>(user); }, const_cast<RemotePieces*>(kept)));
  static_cast<void>(pieces.release());
}

}  // namespace kinora::engines
