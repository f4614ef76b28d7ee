// A parallel strategy in C++, see abi/strategy.h.
#pragma once
#include "kinora/abi/strategy.h"
#include "kinora/link.hpp"
#include "kinora/options.hpp"
#include "kinora/run.hpp"

namespace kinora {

// A group of ranks with blocking transfers.
template <class T>
class Group {
 public:
  explicit Group(const kinora_group* g) : g_(g) {}
  int64_t rank() const { return g_->rank; }
  int64_t size() const { return g_->size; }
  T sum(const T& x) const { return transfer({sizeof(kinora_transfer), KINORA_SUM, 0, 0, 0, 0, handle(x)}); }
  T gather(const T& x, int64_t dim) const { return transfer({sizeof(kinora_transfer), KINORA_GATHER, dim, 0, 0, 0, handle(x)}); }
  T scatter_sum(const T& x, int64_t dim) const {
    return transfer({sizeof(kinora_transfer), KINORA_SCATTER_SUM, dim, 0, 0, 0, handle(x)});
  }
  T exchange(const T& x, int64_t split, int64_t join) const {
    return transfer({sizeof(kinora_transfer), KINORA_EXCHANGE, split, join, 0, 0, handle(x)});
  }
  T transfer(const kinora_transfer& t) const {
    void* work = nullptr;
    kinora_tensor out = nullptr;
    check(g_->start(g_->self, &t, &work));
    check(g_->finish(work, &out));
    return adopt<T>(out);
  }
  const kinora_group* get() const { return g_; }

 private:
  const kinora_group* g_;
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

// A subclass S has: struct Options; static void describe(Describe<Options>&); S(const Options&, const Mesh<T>&).
template <class T>
class Strategy {
 public:
  static constexpr const char* kind = "parallel";
  static constexpr const char* interface_id = KINORA_PARALLEL;
  virtual ~Strategy() = default;
  // The axis that it adds to the mesh; "" if none.
  virtual const char* axis() const { return ""; }
  virtual const kinora_link* link() { return nullptr; }

  template <class S>
  static const void* api() {
    static const kinora_strategy table{
        sizeof(kinora_strategy), 0,
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
        nullptr};
    return &table;
  }

 private:
  static Strategy* of(void* self) { return static_cast<Strategy*>(self); }
};

}  // namespace kinora
