// Storage of one attention's keys and values: rows of tokens that are adjacent, so that attention reads them
// without a copy.
//
// B samples, H heads, d width of a head.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "kinora/tensor.hpp"

namespace kinora {

class KeptRows {
 public:
  struct Pair {
    Tensor k, v;  // [B, tokens, H, d]
  };
  KeptRows() = default;
  // Holds the tokens of these INDEX; `rows` has no other user.
  KeptRows(std::vector<int64_t> index, Pair rows)
      : k_(std::move(rows.k)), v_(std::move(rows.v)), index_(std::move(index)) {}

  // index: INDEX of the tokens to be held from now on. The first `kept` of them are held already, in this
  // order, and the others are the rows of k and v [B, S, H, d]; what else is held is dropped. room: the
  // number of rows to allocate at least. Returns all of them, as views that live until the next call.
  // Throws Error(KINORA_ERROR_INVALID) if a token to be kept is not held, or in another shape or dtype.
  Pair put(const std::vector<int64_t>& index, size_t kept, const Tensor& k, const Tensor& v, int64_t room);
  // Returns the same, and holds what it held: the kept rows are copied.
  Pair with(const std::vector<int64_t>& index, size_t kept, const Tensor& k, const Tensor& v) const;
  // The first `kept` of these tokens, held in this order: a view where they are adjacent; undefined if there are none.
  // Throws as put() does.
  Pair get(const std::vector<int64_t>& index, size_t kept) const;
  int64_t bytes() const;

 private:
  std::vector<int64_t> rows_of(const std::vector<int64_t>& index, size_t kept) const;
  bool is_alike(const Tensor& k, const Tensor& v) const;
  void require_alike(size_t kept, const Tensor& k, const Tensor& v) const;
  void keep(const std::vector<int64_t>& index, size_t kept);
  void allocate(size_t kept, const Tensor& k, const Tensor& v, int64_t room);

  Tensor k_, v_;                // [B, room, H, d]
  int64_t first_ = 0;           // row of the first token
  std::vector<int64_t> index_;  // INDEX of the tokens in rows first_, first_ + 1, ...
};

// int64 [n] on the device of `like`; undefined: the CPU.
Tensor rows_tensor(const std::vector<int64_t>& rows, const Tensor& like);
// The numbers of an integer tensor. On a GPU it waits for the device.
std::vector<int64_t> numbers_of(const Tensor& t);
// "[1, 2]"
std::string shape_text(const Tensor& t);

}  // namespace kinora
