// A parallel strategy in C++, see abi/parallel.h.
#pragma once
#include <type_traits>
#include <utility>

#include "kinora/abi/parallel.h"
#include "kinora/link.hpp"
#include "kinora/options.hpp"
#include "kinora/run.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A started transfer. finish() ends it; if it is not called, the destructor does.
template <class T>
class Started {
 public:
  Started() = default;
  Started(const kinora_group* g, const kinora_transfer& t) : g_(g) { check(g_->start(g_->self, &t, &work_)); }
  Started(Started&& o) noexcept : g_(std::exchange(o.g_, nullptr)), work_(std::exchange(o.work_, nullptr)) {}
  Started& operator=(Started&& o) noexcept {
    std::swap(g_, o.g_);
    std::swap(work_, o.work_);
    return *this;
  }
  ~Started() {
    if (g_) guard([&] { finish(); });
  }
  bool pending() const { return g_ != nullptr; }
  T finish() {
    kinora_tensor out = nullptr;
    const kinora_group* g = std::exchange(g_, nullptr);
    check(g->finish(work_, &out));
    return adopt<T>(out);
  }

 private:
  const kinora_group* g_ = nullptr;
  void* work_ = nullptr;  // also null for transfers of a group of one
};

// A group of ranks. Its transfers record no gradient; kinora/transfers.hpp has those that autograd records.
template <class T>
class Group {
 public:
  explicit Group(const kinora_group* g = nullptr) : g_(g) {}
  int64_t rank() const { return g_->rank; }
  int64_t size() const { return g_->size; }
  // World rank of a member.
  int64_t member(int64_t r) const { return g_->members[r]; }

  T sum(const T& x) const { return start_sum(x).finish(); }
  T gather(const T& x, int64_t dim) const { return start_gather(x, dim).finish(); }
  T scatter_sum(const T& x, int64_t dim) const { return start_scatter_sum(x, dim).finish(); }
  T exchange(const T& x, int64_t split, int64_t join) const {
    return start_exchange(x, split, join).finish();
  }
  T broadcast(const T& x, int64_t from) const { return start(KINORA_OP_BROADCAST, x, 0, 0, from).finish(); }
  void barrier() const { start(KINORA_OP_BARRIER, T()).finish(); }
  T transfer(const kinora_transfer& t) const { return Started<T>(g_, t).finish(); }

  // The input's storage is kept until finish(); do not write to it before.
  Started<T> start_sum(const T& x) const { return start(KINORA_OP_ALL_REDUCE, x); }
  Started<T> start_gather(const T& x, int64_t dim) const { return start(KINORA_OP_ALL_GATHER, x, dim); }
  Started<T> start_scatter_sum(const T& x, int64_t dim) const {
    return start(KINORA_OP_REDUCE_SCATTER, x, dim);
  }
  Started<T> start_exchange(const T& x, int64_t split, int64_t join) const {
    return start(KINORA_OP_ALL_TO_ALL, x, split, join);
  }
  Started<T> send(const T& x, int64_t to, int64_t tag) const {
    return start(KINORA_OP_SEND, x, 0, 0, to, tag);
  }
  // The result has like's shape and dtype.
  Started<T> receive(const T& like, int64_t from, int64_t tag) const {
    return start(KINORA_OP_RECV, like, 0, 0, from, tag);
  }
  const kinora_group* get() const { return g_; }

 private:
  Started<T> start(uint32_t op, const T& x, int64_t dim = 0, int64_t dim2 = 0, int64_t peer = 0,
                   int64_t tag = 0) const {
    return {g_, {sizeof(kinora_transfer), op, dim, dim2, peer, tag, handle(x)}};
  }
  const kinora_group* g_;
};

// A training step that a strategy schedules, see kinora_step.
class Step {
 public:
  explicit Step(const kinora_step* s) : s_(s) {}
  int64_t n_microbatches() const { return s_->n_microbatches; }
  // Whether the loss was computed here; false: the chain kept the output for another stage.
  bool forward(int64_t stage, int64_t micro) const {
    const kinora_pass p = pass(stage, micro);
    const int32_t status = s_->forward(s_->self, &p);
    if (status == KINORA_SIGNAL_STOP) return false;
    check(status);
    return true;
  }
  // For a loss that was computed here.
  void backward(int64_t stage, int64_t micro) const {
    const kinora_pass p = pass(stage, micro);
    check(s_->backward(s_->self, &p));
  }

 private:
  static kinora_pass pass(int64_t stage, int64_t micro) {
    kinora_pass p{};
    p.struct_size = sizeof p;
    p.stage = stage;
    p.microbatch = micro;
    return p;
  }
  const kinora_step* s_;
};

template <class T>
class Mesh {
 public:
  explicit Mesh(const kinora_mesh* m) : m_(m) {}
  int64_t rank() const { return m_->rank; }
  int64_t size() const { return m_->size; }
  Group<T> group(const char* axes) const {
    const kinora_group* g = nullptr;
    check(m_->group(m_->self, axes, &g));
    return Group<T>(g);
  }

 private:
  const kinora_mesh* m_;
};

// A subclass S has: struct Options; static void describe(Describe<Options>&); S(const Options&, const
// Mesh<T>&).
template <class T>
class Strategy {
 public:
  static constexpr const char* kind = "parallel";
  static constexpr const char* interface_id = KINORA_INTERFACE_PARALLEL;
  virtual ~Strategy() = default;
  // The axis that it adds to the mesh; "" if none.
  virtual const char* axis() const { return ""; }
  virtual const kinora_link* link() { return nullptr; }
  // Runs the forwards and backwards of a step in its own order. If it is overridden, the trainer leaves the
  // order to it.
  virtual void step(const Step&, const Run&) {}

  template <class S>
  static const void* api() {
    static const kinora_parallel table{
        sizeof(kinora_parallel),
        0,
        [](const kinora_host*, const kinora_options* o, const kinora_mesh* m) -> void* {
          Strategy* made = nullptr;
          guard([&] { made = new S(described<S>().read(o), Mesh<T>(m)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self) {
          const char* name = nullptr;
          guard([&] { name = of(self)->axis(); });
          return name;
        },
        [](void* self, const kinora_link** out) { return guard([&] { *out = of(self)->link(); }); },
        step_of<S>()};
    return &table;
  }

 private:
  template <class S>
  static constexpr auto step_of() -> int32_t (*)(void*, const kinora_step*, const kinora_run*) {
    if constexpr (std::is_same_v<decltype(&S::step), decltype(&Strategy::step)>) {
      return nullptr;
    } else {
      return [](void* self, const kinora_step* s, const kinora_run* r) {
        return guard([&] { of(self)->step(Step(s), Run(r)); });
      };
    }
  }
  static Strategy* of(void* self) { return static_cast<Strategy*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
