// The samples of a shard in pieces, from the cheapest place that has them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/problem.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

// Some samples of one shard, in their order.
struct Piece {
  std::vector<energon::StoredSample> samples;
  std::optional<Problem> damage;  // the shard ends here
};
// Returns false if the work was stopped.
using PushPiece = std::function<bool(Piece)>;

// Collects samples to pieces of bounded size.
class Pieces {
 public:
  explicit Pieces(const PushPiece& push) : push_(push) {}
  bool add(energon::StoredSample sample);
  bool flush(std::optional<Problem> damage = {});

 private:
  const PushPiece& push_;
  Piece piece_;
  size_t parts_ = 0;
};

// Reads the headers of a shard. Its damage, or that it cannot be opened, is in the last piece; other errors are thrown.
void list_shard(const Shard& shard, const PushPiece& push);

// The same, and writes the .tar.idx and, if the shard is whole, a file of part_file.hpp. Throws for a shard that
// cannot be opened.
void scan_shard(const DataFolder& folder, const Shard& shard, const PushPiece& push);

// Pushes the samples that an interrupted run kept. False if there are none of this shard as it is now.
bool scan_kept(const DataFolder& folder, const Shard& shard, const PushPiece& push);

}  // namespace kinora::data
