#include "core/torch/chain/chain.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "core/torch/chain/end_links.hpp"
#include "core/torch/chain/lora_link.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/context.h"

namespace kinora::core {
namespace {

// Values that this Kinora does not know are refused by name (abi/base.h, rule 11).
void must_know(bool known, std::string_view what, std::string_view of, uint64_t found) {
  if (!known)
    raise(KINORA_ERROR_UNSUPPORTED,
          "{} of {} is {}, which this Kinora does not know; a plugin needs a newer one", what, of, found);
}

void check_known(const kinora_param_spec& s) {
  const std::string of = fmt::format("parameter '{}'", s.name);
  must_know(s.role <= KINORA_ROLE_VOCAB, "role", of, s.role);
  must_know(s.init <= KINORA_INIT_IDENTITY, "init", of, s.init);
  must_know(s.frozen <= 1, "frozen", of, s.frozen);
  must_know(s.needs == 0, "needs", of, s.needs);
  must_know(s.reserved == 0, "reserved", of, s.reserved);
}
void check_known(const kinora_seq_spec& s) { must_know(s.needs == 0, "needs", "a sequence", s.needs); }
void check_known(const kinora_attention& a) {
  const std::string of = fmt::format("attention '{}'", a.name ? a.name : "");
  must_know(a.over <= KINORA_OVER_TIME, "over", of, a.over);
  must_know((a.needs & ~KINORA_ATTENTION_CODES) == 0, "needs", of, a.needs);
  if (a.rope) must_know(a.rope->layout <= KINORA_ROPE_PAIRS, "the rotation's layout", of, a.rope->layout);
  must_know(a.reserved == 0, "reserved", of, a.reserved);
}
void check_known(const kinora_block& b) {
  const std::string of = fmt::format("block {}", b.index);
  must_know(b.needs == 0, "needs", of, b.needs);
  must_know(b.reserved == 0, "reserved", of, b.reserved);
}

void check_known(const kinora_pass& p) {
  must_know(p.read_only <= 1, "read_only", "a pass", p.read_only);
  must_know(p.needs == 0, "needs", "a pass", p.needs);
}

// An argument of a context's call. A struct is copied to this Kinora's size, with 0 in the members that its
// writer did not know, so that every link may read all of them.
template <class A>
struct Argument {
  A given;
  A get() const { return given; }
};
template <class S>
requires requires(const S& s) { check_known(s); }
struct Argument<const S*> {
  S all;
  explicit Argument(const S* given) : all(detail::whole(given)) { check_known(all); }
  const S* get() const { return &all; }
};

template <auto A, auto B>
constexpr bool same =
    std::is_same_v<std::integral_constant<decltype(A), A>, std::integral_constant<decltype(B), B>>;

// A context whose every call goes straight to the first link, from some position of the chain on, that
// implements it: a link with a null slot costs nothing.
class Slots {
 public:
  // `from`: contexts of the links in chain order; the last implements everything. They must outlive this object.
  explicit Slots(const std::vector<const kinora_context*>& from);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  const kinora_context* context() const { return &context_; }

  static constexpr size_t count = 15;

 private:
  // Asks the links one after the other.
  static const void* find_interface(void* self, const char* id, uint32_t minor);

  kinora_context context_{};
  std::vector<const kinora_context*> from_;
  std::array<const kinora_context*, count> owners_{};

  template <size_t I, auto Member>
  struct Slot;
  template <size_t I, auto Member>
  void resolve(const std::vector<const kinora_context*>& from);
};

template <size_t I, class... A, int32_t (*kinora_context::*Member)(void*, A...)>
struct Slots::Slot<I, Member> {
  static int32_t call(void* self, A... a) {
    const auto* owner = static_cast<const Slots*>(self)->owners_[I];
    int32_t status = KINORA_OK;
    const int32_t checked = guard([&] {
      if constexpr (same<Member, &kinora_context::table>)
        must_know(std::get<1>(std::tuple(a...)) <= KINORA_PLACE_INNER, "place", "a table",
                  std::get<1>(std::tuple(a...)));
      if constexpr (same<Member, &kinora_context::reshard>)
        must_know(std::get<2>(std::tuple(a...)) <= KINORA_OVER_TIME, "over", "reshard",
                  std::get<2>(std::tuple(a...)));
      status = (owner->*Member)(owner->self, Argument<A>(a).get()...);
    });
    return checked == KINORA_OK ? status : checked;
  }
};

template <size_t I, auto Member>
void Slots::resolve(const std::vector<const kinora_context*>& from) {
  constexpr size_t end =
      offsetof(kinora_context, parameter) + (I + 1) * sizeof(void*);  // slots are contiguous
  for (const auto* c : from) {
    if (c->struct_size < end || !(c->*Member)) continue;
    owners_[I] = c;
    context_.*Member = Slot<I, Member>::call;
    return;
  }
  raise(KINORA_ERROR_INVALID, "no link of the chain implements slot {} of the context", I);
}

const void* Slots::find_interface(void* self, const char* id, uint32_t minor) {
  for (const auto* c : static_cast<const Slots*>(self)->from_)
    if (KINORA_HAS(c, get_interface) && c->get_interface)
      if (const void* found = c->get_interface(c->self, id, minor)) return found;
  set_error(KINORA_ERROR_NOT_FOUND, fmt::format("no link of the chain offers the interface {}", id).c_str());
  return nullptr;
}

Slots::Slots(const std::vector<const kinora_context*>& from) : from_(from) {
  context_.get_interface = find_interface;
  context_.struct_size = sizeof context_;
  context_.self = this;
  resolve<0, &kinora_context::parameter>(from);
  resolve<1, &kinora_context::value>(from);
  resolve<2, &kinora_context::linear>(from);
  resolve<3, &kinora_context::attention>(from);
  resolve<4, &kinora_context::all_reduce>(from);
  resolve<5, &kinora_context::block>(from);
  resolve<6, &kinora_context::sequence>(from);
  resolve<7, &kinora_context::gather>(from);
  resolve<8, &kinora_context::table>(from);
  resolve<9, &kinora_context::reshard>(from);
  resolve<10, &kinora_context::noise>(from);
  resolve<12, &kinora_context::lookup>(from);
  resolve<13, &kinora_context::share>(from);
  resolve<14, &kinora_context::place>(from);
}

}  // namespace

struct Chain::State {
  explicit State(ChainOptions o)
      : options(std::move(o)),
        root(options.frames, keys, options.device, options.token_multiple),
        base(options.frames, keys, options.device, options.dtype,
             options.blank ? std::nullopt : std::optional(options.seed), options.may_stop) {}

  ChainOptions options;
  kinora_pass pass{};
  SampleKeys keys;
  RootLink root;
  BaseLink base;
  std::unique_ptr<LoraLink> lora;
  std::vector<const kinora_link*> links;     // from the model's end, root and base included
  std::vector<std::unique_ptr<Slots>> from;  // from[i]: what link i - 1 sees as next
  std::vector<kinora_chain> services;        // indexed by link
  std::vector<Leaf> leaves;
  std::map<int64_t, std::vector<at::Tensor>>
      block_leaves;  // leaves that receive gradients, by the block that reads them

  void bind();
  // Members that the writer of `given` did not know keep their values.
  void set_pass(const kinora_pass& given) {
    kinora_pass all = pass;
    std::memcpy(&all, &given, std::min<size_t>(given.struct_size, sizeof all));
    all.struct_size = sizeof all;
    check_known(all);
    pass = all;
  }
  void collect_leaves();
  std::set<kinora_param> ask_pieces();
  void note_block_leaf(const Parameter& p, const at::Tensor& leaf);
};

namespace {

// A slot of a link's table; null if its writer did not know it.
template <auto Member>
auto slot(const kinora_link* l) {
  return reinterpret_cast<const char*>(&(l->*Member) + 1) - reinterpret_cast<const char*>(l) <= l->struct_size
             ? l->*Member
             : nullptr;
}

Leaf& leaf_of(std::vector<Leaf>& leaves, at::Tensor tensor, bool reduced) {
  for (auto& l : leaves)
    if (l.tensor.is_same(tensor)) return l;
  leaves.push_back({});
  leaves.back().frozen = !tensor.requires_grad();
  leaves.back().tensor = std::move(tensor);
  leaves.back().reduced_by_link = reduced;
  return leaves.back();
}

}  // namespace

void Chain::State::bind() {
  std::vector<const kinora_context*> contexts;
  for (const auto* l : links) contexts.push_back(l->context);
  for (size_t i = 0; i < links.size(); ++i)
    from.push_back(std::make_unique<Slots>(
        std::vector(contexts.begin() + static_cast<std::ptrdiff_t>(i), contexts.end())));
  services.resize(links.size());
  for (size_t i = 0; i < links.size(); ++i) {
    auto& s = services[i];
    s.struct_size = sizeof s;
    s.self = this;
    s.next = i + 1 < links.size() ? from[i + 1]->context() : nullptr;
    s.head = from[0]->context();
    s.mesh = options.mesh;
    s.get_pass = [](void* self, kinora_pass* out) {
      KINORA_FILL(out, &static_cast<State*>(self)->pass);
      return KINORA_OK;
    };
    s.set_pass = [](void* self, const kinora_pass* p) {
      return guard([&] { static_cast<State*>(self)->set_pass(*p); });
    };
    s.visible = [](void* self, kinora_tensor q, kinora_tensor k, uint32_t over, kinora_tensor* out) {
      return torch_guard([&] {
        *out = give(core::visible(static_cast<State*>(self)->options.frames, borrow<at::Tensor>(q),
                                  borrow<at::Tensor>(k), over));
      });
    };
    s.leaf = [](void* self, int64_t block, int64_t number, kinora_tensor* out) -> int32_t {
      const auto& of = static_cast<State*>(self)->block_leaves;
      const auto found = of.find(block);
      if (found == of.end() || number < 0 || static_cast<size_t>(number) >= found->second.size())
        return KINORA_ERROR_NOT_FOUND;
      return torch_guard([&] { *out = give(found->second[static_cast<size_t>(number)]); });
    };
    s.skip_block = [](void* self, int64_t block) -> int32_t {
      return torch_guard([&] { static_cast<State*>(self)->base.skip_block(block); });
    };
    s.holds_block = [](void* self, int64_t block) -> int32_t {
      return static_cast<State*>(self)->base.holds_block(block);
    };
    s.get_interface = [](void*, const char* id, uint32_t) -> const void* {
      set_error(KINORA_ERROR_NOT_FOUND, fmt::format("the chain offers no interface {}", id).c_str());
      return nullptr;
    };
    if (auto* f = slot<&kinora_link::bind>(links[i])) check(f(links[i]->context->self, &s));
  }
}

// Also notes a leaf that holds nothing of p here: every rank takes part in the transfers of its gradient.
void Chain::State::note_block_leaf(const Parameter& p, const at::Tensor& leaf) {
  auto& known = block_leaves[p.block];
  const bool there =
      std::any_of(known.begin(), known.end(), [&](const at::Tensor& t) { return t.is_same(leaf); });
  if (leaf.requires_grad() && !there) known.push_back(leaf);
}

// Turns the links' pieces into leaves; returns the parameters that the links own.
std::set<kinora_param> Chain::State::ask_pieces() {
  std::set<kinora_param> taken;
  for (const auto* l : links) {
    auto* piece = slot<&kinora_link::piece>(l);
    for (int64_t i = 0; piece; ++i) {
      Piece p;
      kinora_tensor tensor = nullptr;
      const int32_t status = piece(l->context->self, i, &p.param, &p.first, &p.count, &tensor, &p.offset);
      if (status == KINORA_ERROR_NOT_FOUND) break;
      check(status);
      const auto& parameter = base.parameter_of(p.param);
      const auto own = adopt<at::Tensor>(tensor);
      taken.insert(p.param);
      if (own.defined()) note_block_leaf(parameter, own);
      if (p.count == 0) continue;
      if (p.first < 0 || p.count < 0 || p.offset < 0 || p.first + p.count > parameter.local_numel() ||
          !own.defined() || p.offset + p.count > own.numel())
        raise(KINORA_ERROR_INVALID,
              "a link's piece of parameter '{}' ({} elements from {}, at {} of its leaf) is outside of it",
              parameter.name, p.count, p.first, p.offset);
      leaf_of(leaves, own, slot<&kinora_link::reduce>(l) != nullptr).pieces.push_back(p);
    }
  }
  return taken;
}

void Chain::State::collect_leaves() {
  const auto taken = ask_pieces();
  base.keep_the_rest(taken);
  for (kinora_param id = 1; id <= static_cast<kinora_param>(base.parameters().size()); ++id) {
    if (taken.count(id)) continue;
    const auto& p = base.parameter_of(id);
    if (p.absent) continue;
    leaves.push_back({p.name, base.value(id), p.frozen, false, {{id, 0, p.local_numel(), 0}}});
    note_block_leaf(p, leaves.back().tensor);
  }
  std::stable_sort(leaves.begin(), leaves.end(),
                   [](const Leaf& a, const Leaf& b) { return a.pieces[0].param < b.pieces[0].param; });
  for (auto& l : leaves) {
    const auto &first = base.parameter_of(l.pieces.front().param).name,
               &last = base.parameter_of(l.pieces.back().param).name;
    l.name = l.pieces.size() == 1 ? first : first + " .. " + last;
  }
}

Chain::Chain(ChainOptions options, std::vector<const kinora_link*> links)
    : state_(std::make_unique<State>(std::move(options))) {
  auto& s = *state_;
  s.pass.struct_size = sizeof s.pass;
  s.pass.seed = s.options.seed;
  s.links = std::move(links);
  if (s.options.lora) {
    s.lora = std::make_unique<LoraLink>(*s.options.lora, s.keys);
    s.links.push_back(s.lora->get());
  }
  s.links.push_back(s.root.get());
  s.links.push_back(s.base.get());
  std::stable_sort(s.links.begin(), s.links.end(),
                   [](const kinora_link* a, const kinora_link* b) { return a->level < b->level; });
  if (s.links.back() != s.base.get())
    raise(KINORA_ERROR_INVALID, "a link of level {} would be below the base ({}); links have lower levels",
          s.links.back()->level, KINORA_LEVEL_BASE);
  s.bind();
}

Chain::~Chain() = default;

const kinora_context* Chain::head() const { return state_->from[0]->context(); }

void Chain::ready() {
  auto& s = *state_;
  for (const auto* l : s.links)
    if (auto* f = slot<&kinora_link::declared>(l)) check(f(l->context->self));
  s.base.let_links_take();
  for (size_t i = s.links.size(); i-- > 0;)
    if (auto* f = slot<&kinora_link::ready>(s.links[i])) check(f(s.links[i]->context->self));
  s.collect_leaves();
}

void Chain::begin(const kinora_pass& pass, std::vector<int64_t> samples) {
  state_->set_pass(pass);
  state_->keys.begin(state_->pass, std::move(samples));
  for (const auto* l : state_->links)
    if (auto* f = slot<&kinora_link::begin>(l)) check(f(l->context->self, &state_->pass));
}

void Chain::reduce() {
  for (const auto* l : state_->links)
    if (auto* f = slot<&kinora_link::reduce>(l)) check(f(l->context->self));
  state_->keys.end();
}

const kinora_pass& Chain::pass() const { return state_->pass; }
void Chain::set_pass(const kinora_pass& pass) { state_->set_pass(pass); }
const Frames& Chain::frames() const { return state_->options.frames; }
void Chain::set_frames(Frames frames) {
  frames.before = frames.before || state_->options.frames.before;
  state_->options.frames = std::move(frames);
  state_->root.forget_tables();
  state_->base.forget_plans();
}
const LoraOptions* Chain::lora() const { return state_->lora ? &*state_->options.lora : nullptr; }
const std::vector<Parameter>& Chain::parameters() const { return state_->base.parameters(); }
const Parameter& Chain::parameter(kinora_param id) const { return state_->base.parameter_of(id); }
std::vector<Leaf>& Chain::leaves() { return state_->leaves; }
const std::vector<Leaf>& Chain::leaves() const { return state_->leaves; }

}  // namespace kinora::core
