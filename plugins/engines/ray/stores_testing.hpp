// The object stores of the nodes of a fake cluster: pieces by their number, and copies while a call needs them.
#pragma once
#include <algorithm>
#include <fcntl.h>
#include <map>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "host/workers/sample_message.hpp"

namespace kinora::ray {

class Stores {
 public:
  // first: below the numbers of the pieces.
  explicit Stores(uint64_t first = 0) : first_(first), last_(first) {}

  // Where the bytes of a piece are.
  struct Bytes final : core::SamplePiece {
    mutable std::vector<uint8_t> bytes;
    uint8_t* data() const override { return bytes.data(); }
  };

  // All bytes that were in a node's store at once, pieces and copies.
  uint64_t peak(size_t node) const { return peak_.contains(node) ? peak_.at(node) : 0; }
  // Bytes that went from one node to another; pieces that were kept, and that still are.
  uint64_t moved() const { return moved_; }
  size_t kept() const { return static_cast<size_t>(last_ - first_); }
  size_t left() const { return pieces_.size(); }

  void free(uint64_t id) {
    const auto at = pieces_.find(id);
    if (at == pieces_.end()) return;
    add(at->second.node, -static_cast<int64_t>(at->second.bytes->bytes.size()));
    pieces_.erase(at);
  }
  void lose(size_t node) {
    std::vector<uint64_t> gone;
    for (const auto& [id, piece] : pieces_)
      if (piece.node == node) gone.push_back(id);
    for (const uint64_t id : gone) free(id);
  }

  // The numbers of these inputs' pieces that are not there any more.
  std::vector<uint64_t> gone(const std::vector<core::Message>& inputs) const {
    std::vector<uint64_t> out;
    for (const core::Message& one : inputs)
      for (const uint64_t id : one.head.at("pieces").get<std::vector<uint64_t>>())
        if (id != 0 && !pieces_.contains(id)) out.push_back(id);
    return out;
  }

  // Adds what a stage on this node told, as the bridge does: texts are in the packet, and so is all of it where it goes
  // home; a piece of the call's inputs keeps its number.
  void put(core::Message& letter, const Sample& sample, size_t node, bool home) {
    std::vector<uint64_t> ids;
    core::put_sample(letter, sample, [&](const core::LargeData& what) {
      const bool here = home || what.name.ends_with("json") || what.name.ends_with("txt");
      if (here) letter.shared.push_back(sealed(what.data, what.size));
      ids.push_back(here ? 0 : number_of(what, node));
      return ids.size() - 1;
    });
    letter.head["pieces"] = ids;
  }

  // A call on a node: its copies of pieces of other nodes end with it.
  class Visit {
   public:
    Visit(Stores& stores, size_t node) : stores_(stores), node_(node) {}
    ~Visit() { stores_.add(node_, -copied_); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    Sample take(const core::Message& input) {
      const auto ids = input.head.at("pieces").get<std::vector<uint64_t>>();
      size_t beside = 0;
      return core::take_sample(input, [&](size_t number, size_t) -> std::shared_ptr<core::SamplePiece> {
        const uint64_t id = ids.at(number);
        if (id == 0) return read(input.shared.at(beside++));
        const Piece& piece = stores_.pieces_.at(id);
        const auto size = static_cast<int64_t>(piece.bytes->bytes.size());
        if (piece.node != node_) {
          stores_.moved_ += piece.bytes->bytes.size();
          copied_ += size;
          stores_.add(node_, size);
        }
        return piece.bytes;
      });
    }

   private:
    std::shared_ptr<Bytes> read(const core::Descriptor& from) {
      auto out = std::make_shared<Bytes>();
      struct stat s {};
      ::fstat(from.get(), &s);
      out->bytes.resize(static_cast<size_t>(s.st_size));
      EXPECT_EQ(::pread(from.get(), out->bytes.data(), out->bytes.size(), 0), s.st_size);
      return out;
    }
    Stores& stores_;
    const size_t node_;
    int64_t copied_ = 0;
  };

 private:
  struct Piece {
    std::shared_ptr<Bytes> bytes;
    size_t node;
  };

  uint64_t number_of(const core::LargeData& what, size_t node) {
    for (const auto& [id, piece] : pieces_)
      if (piece.bytes->data() == what.data) return id;
    auto bytes = std::make_shared<Bytes>();
    bytes->bytes.assign(static_cast<const uint8_t*>(what.data),
                        static_cast<const uint8_t*>(what.data) + what.size);
    pieces_[++last_] = {std::move(bytes), node};
    add(node, static_cast<int64_t>(what.size));
    return last_;
  }

  static core::Descriptor sealed(const void* data, size_t size) {
    core::Descriptor out(::memfd_create("kinora-sample", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::write(out.get(), data, size), static_cast<ssize_t>(size));
    ::fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return out;
  }

  void add(size_t node, int64_t bytes) {
    now_[node] += bytes;
    peak_[node] = std::max(peak_[node], static_cast<uint64_t>(now_[node]));
  }

  std::map<uint64_t, Piece> pieces_;
  std::map<size_t, int64_t> now_;
  std::map<size_t, uint64_t> peak_;
  uint64_t first_, last_, moved_ = 0;
};

}  // namespace kinora::ray
