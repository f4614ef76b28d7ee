// A link of the chain behind a model's context in C++, see abi/link.h. Override what the link changes; the
// rest passes on.
#pragma once
#include <type_traits>
#include <vector>

#include "kinora/abi/link.h"
#include "kinora/context.hpp"

KINORA_SDK_BEGIN

namespace kinora {

template <class T>
class Link {
 public:
  using Tensors = std::vector<T>;
  // attention_needs: the bits of kinora_attention.needs that attention() understands; others are refused.
  explicit Link(uint32_t level, uint32_t attention_needs = 0) : attention_needs_(attention_needs) {
    link_.struct_size = sizeof link_;
    link_.level = level;
    context_ = slots(this);
    link_.context = &context_;
    link_.bind = [](void* self, const kinora_chain* c) { return guard([&] { of(self)->attach(c); }); };
    link_.ready = [](void* self) { return guard([&] { of(self)->ready(); }); };
    link_.begin = [](void* self, const kinora_pass* p) {
      return guard([&] { of(self)->begin(detail::known(p, "a pass")); });
    };
    link_.reduce = [](void* self) { return guard([&] { of(self)->reduce(); }); };
    link_.piece = [](void* self, int64_t i, kinora_param* param, int64_t* first, int64_t* count,
                     kinora_tensor* leaf, int64_t* offset) {
      Piece p;
      bool more = false;
      const int32_t status = guard([&] { more = of(self)->piece(i, p); });
      if (status != KINORA_OK || !more) return status != KINORA_OK ? status : KINORA_ERROR_NOT_FOUND;
      *param = p.param;
      *first = p.first;
      *count = p.count;
      *offset = p.offset;
      return guard([&] { *leaf = give(std::move(p.leaf)); });
    };
    link_.declared = [](void* self) { return guard([&] { of(self)->declared(); }); };
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;
  const kinora_link* get() const { return &link_; }

  virtual kinora_param parameter(const kinora_param_spec& s) { return next.parameter(s); }
  virtual T value(kinora_param p) { return next.value(p); }
  virtual T linear(const T& x, kinora_param w, kinora_param b, kinora_seq s) {
    return next.linear(x, w, b, s);
  }
  virtual T attention(const T& q, const T& k, const T& v, const kinora_attention& how) {
    return next.attention(q, k, v, how);
  }
  virtual T all_reduce(const T& x) { return next.all_reduce(x); }
  virtual Tensors block(const kinora_block& b, const Tensors& in) { return next.block(b, in); }
  virtual T sequence(const T& x, const kinora_seq_spec& spec, kinora_seq& seq) {
    return next.sequence(x, spec, seq);
  }
  virtual T gather(const T& x, kinora_seq s) { return next.gather(x, s); }
  virtual T table(kinora_seq s, Place place) { return next.table(s, place); }
  virtual T reshard(const T& x, kinora_seq s, Over over, kinora_seq& to) {
    return next.reshard(x, s, over, to);
  }
  // A table of functions by which this link offers a service to the other links (id "vendor.name/1"); null
  // for any other id.
  virtual const void* get_interface(const char* /*id*/, uint32_t /*minor*/) { return nullptr; }
  virtual T noise(const T& like, kinora_seq s, const char* key) { return next.noise(like, s, key); }
  virtual T lookup(const T& ids, kinora_param p, kinora_seq s) { return next.lookup(ids, p, s); }
  virtual T share(const std::vector<double>& costs) { return next.share(costs); }
  virtual T place(const T& made, const std::vector<int64_t>& index, const std::vector<int64_t>& rows,
                  kinora_seq s) {
    return next.place(made, index, rows, s);
  }
  // Every parameter is known; none has storage yet.
  virtual void declared() {}
  virtual void ready() {}
  virtual void begin(const kinora_pass&) {}
  virtual void reduce() {}
  // [first, first + count) of the flattened local parameter is stored at `offset` of the flattened leaf.
  struct Piece {
    kinora_param param = 0;
    int64_t first = 0, count = 0;
    T leaf;
    int64_t offset = 0;
  };
  // Piece i of the parameters that this link took ownership of in ready(); false past the last.
  virtual bool piece(int64_t, Piece&) { return false; }

  kinora_pass pass() const {
    kinora_pass p{.struct_size = sizeof p};
    check(chain_->get_pass(chain_->self, &p));
    return detail::known(&p, "a pass");
  }
  void set_pass(const kinora_pass& p) const { check(chain_->set_pass(chain_->self, &p)); }
  // bool [1 or B, S, L]: the keys that each query sees under the run's rule.
  T visible(const T& q_table, const T& k_table, uint32_t over) const {
    kinora_tensor out = nullptr;
    check(chain_->visible(chain_->self, handle(q_table), handle(k_table), over, &out));
    return adopt<T>(out);
  }
  // The run's ranks; null: there is one.
  const kinora_mesh* mesh() const { return KINORA_HAS(chain_, mesh) ? chain_->mesh : nullptr; }
  // In declared(): the block of this number does not run on this rank.
  void skip_block(int64_t block) const { check(chain_->skip_block(chain_->self, block)); }
  bool holds_block(int64_t block) const { return chain_->holds_block(chain_->self, block) != 0; }
  // The leaves that receive the gradients of the parameters that `block` reads: inputs of a node that
  // represents the block.
  Tensors leaves(int64_t block) const {
    Tensors out;
    for (int64_t i = 0;; ++i) {
      kinora_tensor leaf = nullptr;
      const int32_t status = chain_->leaf(chain_->self, block, i, &leaf);
      if (status == KINORA_ERROR_NOT_FOUND) return out;
      check(status);
      out.push_back(adopt<T>(leaf));
    }
  }

 protected:
  // In the constructor of a link D: slots that D does not override become null, so that calls pass by this
  // link for free.
  template <class D>
  void skip_inherited();
  Context<T> next, head;

 private:
  static Link* of(void* self) { return static_cast<Link*>(self); }
  void attach(const kinora_chain* c) {
    chain_ = c;
    next = Context<T>(c->next);
    head = Context<T>(c->head);
  }
  static kinora_context slots(Link* self);
  uint32_t attention_needs_;
  kinora_context context_{};
  kinora_link link_{};
  const kinora_chain* chain_ = nullptr;
};

template <class T>
template <class D>
void Link<T>::skip_inherited() {
  kinora_context& c = context_;
#define KINORA_SKIP(table, slot) \
  if constexpr (std::is_same_v<decltype(&D::slot), decltype(&Link::slot)>) table.slot = nullptr
  KINORA_SKIP(c, parameter);
  KINORA_SKIP(c, value);
  KINORA_SKIP(c, linear);
  KINORA_SKIP(c, attention);
  KINORA_SKIP(c, all_reduce);
  KINORA_SKIP(c, block);
  KINORA_SKIP(c, sequence);
  KINORA_SKIP(c, gather);
  KINORA_SKIP(c, table);
  KINORA_SKIP(c, reshard);
  KINORA_SKIP(c, noise);
  KINORA_SKIP(c, get_interface);
  KINORA_SKIP(c, lookup);
  KINORA_SKIP(c, share);
  KINORA_SKIP(c, place);
  KINORA_SKIP(link_, declared);
  KINORA_SKIP(link_, ready);
  KINORA_SKIP(link_, begin);
  KINORA_SKIP(link_, reduce);
  KINORA_SKIP(link_, piece);
#undef KINORA_SKIP
}

template <class T>
kinora_context Link<T>::slots(Link* self) {
  using H = kinora_tensor;
  kinora_context c{};
  c.struct_size = sizeof c;
  c.self = self;
  c.parameter = [](void* s, const kinora_param_spec* p, kinora_param* o) {
    return guard([&] { *o = of(s)->parameter(detail::known(p, "a parameter")); });
  };
  c.value = [](void* s, kinora_param p, H* o) { return guard([&] { *o = give(of(s)->value(p)); }); };
  c.linear = [](void* s, H x, kinora_param w, kinora_param b, kinora_seq q, H* o) {
    return guard([&] { *o = give(of(s)->linear(borrow<T>(x), w, b, q)); });
  };
  c.attention = [](void* s, H q, H k, H v, const kinora_attention* how, H* o) {
    return guard([&] {
      *o = give(of(s)->attention(borrow<T>(q), borrow<T>(k), borrow<T>(v),
                                 detail::known(how, "an attention", of(s)->attention_needs_)));
    });
  };
  c.all_reduce = [](void* s, H x, H* o) {
    return guard([&] { *o = give(of(s)->all_reduce(borrow<T>(x))); });
  };
  c.block = [](void* s, const kinora_block* b, const H* in, H* o) {
    return guard([&] {
      const kinora_block all = detail::known(b, "a block");
      Tensors x;
      for (uint32_t i = 0; i < all.n_carry + all.n_shared; ++i) x.push_back(borrow<T>(in[i]));
      detail::give_all(of(s)->block(all, x), all.n_out, all.index, o);
    });
  };
  c.sequence = [](void* s, H x, const kinora_seq_spec* p, kinora_seq* q, H* o) {
    return guard([&] { *o = give(of(s)->sequence(borrow<T>(x), detail::known(p, "a sequence"), *q)); });
  };
  c.gather = [](void* s, H x, kinora_seq q, H* o) {
    return guard([&] { *o = give(of(s)->gather(borrow<T>(x), q)); });
  };
  c.table = [](void* s, kinora_seq q, uint32_t p, H* o) {
    return guard([&] { *o = give(of(s)->table(q, Place(p))); });
  };
  c.reshard = [](void* s, H x, kinora_seq q, uint32_t over, kinora_seq* to, H* o) {
    return guard([&] { *o = give(of(s)->reshard(borrow<T>(x), q, Over(over), *to)); });
  };
  c.noise = [](void* s, H like, kinora_seq q, const char* key, H* o) {
    return guard([&] { *o = give(of(s)->noise(borrow<T>(like), q, key)); });
  };
  c.get_interface = [](void* s, const char* id, uint32_t minor) -> const void* {
    const void* out = nullptr;
    return guard([&] { out = of(s)->get_interface(id, minor); }) == KINORA_OK ? out : nullptr;
  };
  c.lookup = [](void* s, H ids, kinora_param p, kinora_seq q, H* o) {
    return guard([&] { *o = give(of(s)->lookup(borrow<T>(ids), p, q)); });
  };
  c.share = [](void* s, const double* costs, uint64_t n, H* o) {
    return guard([&] { *o = give(of(s)->share({costs, costs + n})); });
  };
  c.place = [](void* s, H made, const int64_t* index, const int64_t* rows, uint64_t n, kinora_seq q, H* o) {
    return guard([&] { *o = give(of(s)->place(borrow<T>(made), {index, index + n}, {rows, rows + n}, q)); });
  };
  return c;
}

}  // namespace kinora

KINORA_SDK_END
