// A world of test processes over collective/gloo, and tensors whose elements identify their origin.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "core/torch/ranks/mesh.hpp"
#include "kinora/aten.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::test {

// A world that this rank has joined.
struct World {
  test::Instance<kinora_collective> gloo;
  explicit World(const Rank& me, int32_t timeout_ms = 20000, const std::string& rendezvous = "",
                 const core::json& options = core::json::object(), const kinora_run* run = nullptr)
      : gloo("collective/gloo", options) {
    const std::string uri = rendezvous.empty() ? me.file() : rendezvous;
    const kinora_world w{sizeof w, timeout_ms, me.rank, me.size, uri.c_str(), nullptr, run};
    check(gloo->join(gloo.self(), &w));
  }
  core::MeshOwner mesh(const Rank& me, const core::MeshOwner::Sizes& sizes) const {
    return {*gloo.operator->(), gloo.self(), me.rank, sizes};
  }
};

// Row r of rank k is 100 k + 10 r + column, so every element identifies its origin.
inline at::Tensor numbered(int64_t rank, int64_t rows, int64_t cols) {
  return 100 * rank + 10 * at::arange(rows, at::kDouble).unsqueeze(1) + at::arange(cols, at::kDouble);
}
inline std::vector<at::Tensor> of_all(int64_t n, int64_t rows, int64_t cols) {
  std::vector<at::Tensor> out;
  for (int64_t r = 0; r < n; ++r) out.push_back(numbered(r, rows, cols));
  return out;
}
inline kinora_transfer transfer(uint32_t op, const at::Tensor& in, int64_t dim = 0, int64_t dim2 = 0,
                                int64_t peer = 0, int64_t tag = 0) {
  return {sizeof(kinora_transfer), op, dim, dim2, peer, tag, handle(in)};
}

// A started transfer.
struct Pending {
  const kinora_group* g;
  void* work = nullptr;
  Pending(const kinora_group* group, const kinora_transfer& t) : g(group) {
    check(g->start(g->self, &t, &work));
  }
  at::Tensor finish() {
    kinora_tensor out = nullptr;
    check(g->finish(work, &out));
    return adopt<at::Tensor>(out);
  }
};

// The status and message of a transfer that must fail, and its time.
struct Failed {
  int32_t code = KINORA_OK;
  std::string message;
  double seconds = 0;
};
template <class F>
Failed failure_of(F f) {
  const auto begin = std::chrono::steady_clock::now();
  Failed out;
  try {
    f();
  } catch (const Error& e) {
    out = {e.code(), e.what(), 0};
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace kinora::test
