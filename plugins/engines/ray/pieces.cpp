#include "plugins/engines/ray/pieces.hpp"

#include <algorithm>

namespace kinora::ray {
namespace {

using nlohmann::json;

constexpr const char* kLists[] = {"fields", "tensors"};

}  // namespace

struct Pieces::Piece {
  std::shared_ptr<Pieces> of;
  uint64_t id;
  uint64_t bytes;
  size_t node;
  Piece(std::shared_ptr<Pieces> pieces, uint64_t number, uint64_t size, size_t on)
      : of(std::move(pieces)), id(number), bytes(size), node(on) {}
  ~Piece() { of->end(id); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
};

class Pieces::Kept final : public engines::RemotePieces {
 public:
  Kept(std::vector<Elsewhere> parts, std::vector<std::shared_ptr<const Piece>> pieces)
      : RemotePieces(listed(pieces)), parts_(std::move(parts)), pieces_(std::move(pieces)) {}
  const std::vector<Elsewhere>& parts() const { return parts_; }

 private:
  static std::vector<engines::RemotePiece> listed(const std::vector<std::shared_ptr<const Piece>>& pieces) {
    std::vector<engines::RemotePiece> out;
    for (const auto& piece : pieces) out.push_back({piece->id, piece->bytes, piece->node});
    return out;
  }
  const std::vector<Elsewhere> parts_;
  const std::vector<std::shared_ptr<const Piece>> pieces_;
};

void Pieces::attach(Sample& sample, std::vector<Elsewhere> parts, size_t node) {
  if (parts.empty()) return;
  std::vector<std::shared_ptr<const Piece>> pieces;
  for (const Elsewhere& part : parts) {
    const auto bytes = part.told.at("size").get<uint64_t>();
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const Piece>& known = alive_[part.id];
    std::shared_ptr<const Piece> piece = known.lock();
    if (!piece) known = piece = std::make_shared<const Piece>(shared_from_this(), part.id, bytes, node);
    pieces.push_back(std::move(piece));
  }
  engines::set_remote(sample, std::make_unique<Kept>(std::move(parts), std::move(pieces)));
}

std::vector<uint64_t> Pieces::take_freed(size_t most) {
  const std::lock_guard lock(mutex_);
  const auto begin = freed_.end() - static_cast<std::ptrdiff_t>(std::min(most, freed_.size()));
  std::vector<uint64_t> out(begin, freed_.end());
  freed_.erase(begin, freed_.end());
  return out;
}

void Pieces::end(uint64_t id) {
  const std::lock_guard lock(mutex_);
  alive_.erase(id);
  freed_.push_back(id);
}

std::vector<Elsewhere> elsewhere(const Sample& sample) {
  const auto* kept = static_cast<const Pieces::Kept*>(engines::remote_of(sample));
  return kept ? kept->parts() : std::vector<Elsewhere>{};
}

std::vector<Elsewhere> take_elsewhere(json& head) {
  std::vector<Elsewhere> out;
  const auto ids = head.value("pieces", std::vector<uint64_t>{});
  for (const char* list : kLists) {
    json here = json::array();
    for (json& one : head.at("sample").at(list)) {
      if (one.contains("piece")) {
        const auto number = one.at("piece").get<size_t>();
        if (const uint64_t id = ids.at(number); id != 0) {
          one.erase("piece");
          out.push_back({id, list, std::move(one)});
          continue;
        }
        one["piece"] = std::count(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(number), 0u);
      }
      here.push_back(std::move(one));
    }
    head["sample"][list] = std::move(here);
  }
  return out;
}

// Pieces are numbered in the order of the fields, then the tensors.
void put_elsewhere(json& head, std::vector<Elsewhere> parts) {
  std::vector<uint64_t> ids;
  for (const char* list : kLists) {
    json& all = head.at("sample").at(list);
    for (json& one : all)
      if (one.contains("piece")) one["piece"] = ids.size(), ids.push_back(0);
    for (Elsewhere& part : parts) {
      if (std::string_view(part.list) != list) continue;
      part.told["piece"] = ids.size();
      ids.push_back(part.id);
      all.push_back(std::move(part.told));
    }
  }
  head["pieces"] = std::move(ids);
}

}  // namespace kinora::ray
