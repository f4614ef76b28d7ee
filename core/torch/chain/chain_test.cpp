// The chain behind a context: order, null slots, storage, passes; and the base's mathematics compared with
// plain formulas.
#include "core/torch/chain/chain.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/cancel.hpp"
#include "core/plugin/host.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using ChainContext = kinora::Context<at::Tensor>;

class ChainOf : public testing::Test {
 protected:
  static void SetUpTestSuite() { serve_tensors(); }
  static ChainOptions exact() {
    ChainOptions o;
    o.dtype = at::kDouble;
    o.seed = 11;
    return o;
  }
  static kinora_pass pass_of(int64_t first_sample, uint64_t seed = 5) {
    return {sizeof(kinora_pass), 0, 0, 0, first_sample, 0, 0, seed};
  }
};

std::vector<std::string> trace;

struct NamedLink final : Link<at::Tensor> {
  NamedLink(uint32_t level, std::string n) : Link(level), name(std::move(n)) { skip_inherited<NamedLink>(); }
  at::Tensor all_reduce(const at::Tensor& x) override {
    trace.push_back(name);
    return next.all_reduce(x) + 1;
  }
  void ready() override { trace.push_back("ready " + name); }
  std::string name;
};
struct Silent final : Link<at::Tensor> {
  explicit Silent(uint32_t level) : Link(level) { skip_inherited<Silent>(); }
};

TEST_F(ChainOf, LinksRunByLevelAndEqualLevelsInTheOrderGiven) {
  NamedLink b(KINORA_LEVEL_TENSOR, "b"), a(KINORA_LEVEL_CONTEXT, "a"), c(KINORA_LEVEL_TENSOR, "c"),
      m(KINORA_LEVEL_METER, "m");
  Chain chain(exact(), {b.get(), a.get(), c.get(), m.get()});
  trace.clear();
  const auto y = ChainContext(chain.head()).all_reduce(at::zeros({1}));
  EXPECT_THAT(trace, ElementsAre("m", "a", "b", "c"));
  EXPECT_EQ(y.item<float>(), 4);
  trace.clear();
  chain.ready();
  EXPECT_THAT(trace, ElementsAre("ready c", "ready b", "ready a", "ready m")) << "starting at the base";
}

// Like a pipeline: block 1 belongs to another rank.
struct WithoutBlockOne final : Link<at::Tensor> {
  WithoutBlockOne() : Link(KINORA_LEVEL_PIPELINE) { skip_inherited<WithoutBlockOne>(); }
  void declared() override { skip_block(1); }
};
struct Asks final : Link<at::Tensor> {
  Asks() : Link(KINORA_LEVEL_FSDP) { skip_inherited<Asks>(); }
  void ready() override {
    for (const int64_t block : {-1, 0, 1, 2}) holds.push_back(holds_block(block));
  }
  std::vector<bool> holds;
};

TEST_F(ChainOf, NothingIsHeldOfABlockThatAnotherRankRuns) {
  WithoutBlockOne pipeline;
  Asks below;
  Chain chain(exact(), {pipeline.get(), below.get()});
  const ChainContext ctx(chain.head());
  const auto outside = ctx.parameter({.name = "outside", .shape = {2}}),
             here = ctx.parameter({.name = "here", .shape = {3}, .block = 0}),
             there = ctx.parameter({.name = "there", .shape = {4}, .block = 1});
  chain.ready();
  EXPECT_THAT(below.holds, ElementsAre(true, true, false, true));
  ASSERT_EQ(chain.leaves().size(), 2U);
  EXPECT_EQ(ctx.value(outside).numel() + ctx.value(here).numel(), 5);
  EXPECT_TRUE(chain.parameter(there).absent);
  EXPECT_THAT(test::refusal([&] { ctx.value(there); }),
              HasSubstr("'there' of block 1 was asked for on a rank that does not run that block"));
}

TEST_F(ChainOf, SlotsThatALinkDoesNotImplementAreNullAndSkipped) {
  Silent s(KINORA_LEVEL_TENSOR);
  NamedLink n(KINORA_LEVEL_TENSOR, "n");
  for (const auto* slot : {reinterpret_cast<const void*>(s.get()->context->all_reduce),
                           reinterpret_cast<const void*>(s.get()->context->linear),
                           reinterpret_cast<const void*>(n.get()->context->linear),
                           reinterpret_cast<const void*>(s.get()->piece)})
    EXPECT_EQ(slot, nullptr);
  EXPECT_NE(reinterpret_cast<const void*>(n.get()->context->all_reduce), nullptr);
  Chain chain(exact(), {s.get(), n.get()});
  trace.clear();
  ChainContext(chain.head()).all_reduce(at::zeros({1}));
  EXPECT_THAT(trace, ElementsAre("n"));
}

TEST_F(ChainOf, ALinkFromAnOlderHeaderMayEndEarly) {
  kinora_link old{};  // its header ended with bind
  old.struct_size = offsetof(kinora_link, ready);
  old.level = KINORA_LEVEL_CACHE;
  kinora_context none{};
  none.struct_size = sizeof none;
  old.context = &none;
  old.ready = [](void*) -> int32_t { return KINORA_ERROR_FAILED; };
  Chain chain(exact(), {&old});
  chain.ready();
  chain.begin(pass_of(0));
  chain.reduce();
}

// A value that a plugin of a newer ABI writes and this host does not know is refused by name, never ignored.
TEST_F(ChainOf, UnknownValuesAreRefusedByName) {
  Chain chain(exact());
  const kinora_context& c = *chain.head();
  const auto refused = [](int32_t status) {
    EXPECT_EQ(status, KINORA_ERROR_UNSUPPORTED);
    return std::string(view(core_host().last_error(&core_host())));
  };
  kinora_param out = 0;
  const int64_t shape[] = {2, 2};
  kinora_param_spec spec{sizeof spec, KINORA_ROLE_WHOLE, "w", shape, 2, 0, nullptr, 1, -1};
  spec.shards = 1;
  for (auto* member : {&spec.role, &spec.init, &spec.frozen, &spec.needs, &spec.reserved}) {
    const uint32_t good = std::exchange(*member, 77u);
    EXPECT_THAT(refused(c.parameter(c.self, &spec, &out)), HasSubstr("of parameter 'w' is 77"));
    *member = good;
  }
  EXPECT_EQ(c.parameter(c.self, &spec, &out), KINORA_OK);
  chain.ready();
  const at::Tensor x = at::zeros({1, 4, 1, 2}, at::kDouble);
  kinora_tensor made = nullptr;
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.name = "one";
  for (auto* member : {&how.over, &how.needs, &how.reserved}) {
    *member = 77;
    EXPECT_THAT(refused(c.attention(c.self, handle(x), handle(x), handle(x), &how, &made)),
                HasSubstr("of attention 'one' is 77"));
    *member = 0;
  }
  kinora_seq seq = 0;
  kinora_seq_spec tokens{};
  tokens.struct_size = sizeof tokens;
  tokens.frames = 4, tokens.rows = tokens.cols = 1;
  tokens.needs = 77;
  EXPECT_THAT(refused(c.sequence(c.self, handle(x), &tokens, &seq, &made)),
              HasSubstr("needs of a sequence is 77"));
  kinora_block block{};
  block.struct_size = sizeof block;
  block.index = 3;
  block.fn = [](void*, const kinora_tensor*, kinora_tensor*) -> int32_t { return KINORA_OK; };
  for (auto* member : {&block.needs, &block.reserved}) {
    *member = 77;
    EXPECT_THAT(refused(c.block(c.self, &block, nullptr, nullptr)), HasSubstr("of block 3 is 77"));
    *member = 0;
  }
  EXPECT_EQ(c.block(c.self, &block, nullptr, nullptr), KINORA_OK);
  EXPECT_THAT(refused(c.table(c.self, seq, 77, &made)), HasSubstr("place of a table is 77"));
  EXPECT_THAT(refused(c.reshard(c.self, handle(x), seq, 77, &seq, &made)),
              HasSubstr("over of reshard is 77"));
}

// A model of an older ABI writes shorter structs, one of a newer ABI longer ones.
TEST_F(ChainOf, StructsOfOtherSizesArriveWholeInEveryLink) {
  kinora_param_spec seen{};  // by a link without the SDK, which would copy too
  kinora_context calls{};
  calls.struct_size = sizeof calls;
  calls.self = &seen;
  calls.parameter = [](void* self, const kinora_param_spec* s, kinora_param* out) -> int32_t {
    *static_cast<kinora_param_spec*>(self) = *s;
    *out = 1;
    return KINORA_OK;
  };
  kinora_link link{};
  link.struct_size = sizeof link;
  link.level = KINORA_LEVEL_TENSOR;
  link.context = &calls;
  Chain chain(exact(), {&link});
  const kinora_context& c = *chain.head();
  const int64_t shape[] = {2, 2};
  struct {
    kinora_param_spec spec;
    uint64_t appended = 77;
  } grown{{sizeof grown, KINORA_ROLE_WHOLE, "new", shape, 2, 0, nullptr, 1, -1}};
  grown.spec.shards = 1;
  kinora_param out = 0;
  EXPECT_EQ(c.parameter(c.self, &grown.spec, &out), KINORA_OK);
  EXPECT_EQ(seen.struct_size, sizeof(kinora_param_spec));
  kinora_param_spec shorter = grown.spec;
  shorter.struct_size = offsetof(kinora_param_spec, needs);
  shorter.name = "old";
  shorter.needs = 77;  // beyond its end
  EXPECT_EQ(c.parameter(c.self, &shorter, &out), KINORA_OK);
  EXPECT_EQ(seen.struct_size, sizeof(kinora_param_spec));
  EXPECT_EQ(seen.needs, 0u);
}

// The host of a newer ABI writes no more of the pass than the link has room for.
TEST_F(ChainOf, GetPassFillsTheRoomThereIs) {
  struct Asks final : Link<at::Tensor> {
    Asks() : Link(KINORA_LEVEL_TENSOR) { skip_inherited<Asks>(); }
    void begin(const kinora_pass&) override { seen = pass(); }
    kinora_pass seen{};
  } asks;
  Chain chain(exact(), {asks.get()});
  chain.begin(pass_of(3, 9));
  EXPECT_EQ(asks.seen.struct_size, sizeof(kinora_pass));
  EXPECT_EQ(asks.seen.first_sample, 3);
  EXPECT_EQ(asks.seen.seed, 9u);
}

// A newer caller, such as a strategy of its own schedule, may ask more of a pass.
TEST_F(ChainOf, APassIsRefusedForWhatItDoesNotKnow) {
  struct Asks final : Link<at::Tensor> {
    Asks() : Link(KINORA_LEVEL_TENSOR) {}
  } asks;
  Chain chain(exact(), {asks.get()});
  chain.begin({.struct_size = sizeof(kinora_pass), .session = 7, .read_only = 1});
  const kinora_pass before = asks.pass();
  EXPECT_EQ(before.session, 7u);
  for (const auto& [pass, word] :
       {std::pair{kinora_pass{.struct_size = sizeof(kinora_pass), .read_only = 2}, "read_only"},
        {kinora_pass{.struct_size = sizeof(kinora_pass), .needs = 1}, "needs"}}) {
    EXPECT_THAT(test::refusal([&] { chain.begin(pass); }), testing::HasSubstr(word));
    EXPECT_THAT(test::refusal([&] { asks.set_pass(pass); }), testing::HasSubstr(word));
    EXPECT_EQ(asks.get()->begin(asks.get()->context->self, &pass),
              pass.needs ? KINORA_ERROR_UNSUPPORTED : KINORA_OK)
        << "a link looks at needs itself";
  }
  EXPECT_EQ(asks.pass().session, 7u) << "a refused pass changes nothing";
}

// An older link's kinora_pass ended before `stage`: the chain writes nothing behind it.
TEST_F(ChainOf, GetPassKeepsToTheRoomOfAnOlderLink) {
  const kinora_chain* bound = nullptr;
  kinora_context none{};
  none.struct_size = sizeof none;
  none.self = &bound;
  kinora_link link{};
  link.struct_size = sizeof link;
  link.level = KINORA_LEVEL_TENSOR;
  link.context = &none;
  link.bind = [](void* self, const kinora_chain* c) -> int32_t {
    *static_cast<const kinora_chain**>(self) = c;
    return KINORA_OK;
  };
  Chain chain(exact(), {&link});
  chain.begin(pass_of(3, 9));
  ASSERT_NE(bound, nullptr);
  struct {
    kinora_pass pass;
    uint64_t behind;
  } older{{offsetof(kinora_pass, stage)}, 77};
  older.pass.seed = 77;
  ASSERT_EQ(bound->get_pass(bound->self, &older.pass), KINORA_OK);
  EXPECT_EQ(older.pass.struct_size, offsetof(kinora_pass, stage));
  EXPECT_EQ(older.pass.first_sample, 3);
  EXPECT_EQ(older.pass.seed, 77u) << "beyond the room";
  EXPECT_EQ(older.behind, 77u);
}

// A link's copy of the struct would lose what a newer caller says must not be ignored.
TEST_F(ChainOf, ALinkRefusesNeedsThatItDoesNotKnow) {
  struct Passes final : Link<at::Tensor> {
    Passes() : Link(KINORA_LEVEL_TENSOR) {}
  } link;
  Chain chain(exact(), {&*link.get()});
  const kinora_context& c = *link.get()->context;
  const auto refused = [](int32_t status, const std::string& of) {
    EXPECT_EQ(status, KINORA_ERROR_UNSUPPORTED);
    EXPECT_THAT(test::last_error(), HasSubstr("needs of " + of + " is 4"));
  };
  const int64_t shape[] = {2, 2};
  kinora_param_spec spec{};
  spec.struct_size = sizeof spec;
  spec.name = "w";
  spec.shape = shape;
  spec.ndim = 2;
  spec.shards = 1;
  spec.block = -1;
  kinora_param param = 0;
  EXPECT_EQ(c.parameter(c.self, &spec, &param), KINORA_OK);
  spec.needs = 4;
  spec.name = "v";
  refused(c.parameter(c.self, &spec, &param), "a parameter");
  const at::Tensor x = at::zeros({1, 2, 1, 2});
  kinora_tensor out = nullptr;
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.needs = 4;
  refused(c.attention(c.self, handle(x), handle(x), handle(x), &how, &out), "an attention");
  kinora_seq_spec tokens{};
  tokens.struct_size = sizeof tokens;
  tokens.needs = 4;
  kinora_seq seq = 0;
  refused(c.sequence(c.self, handle(x), &tokens, &seq, &out), "a sequence");
  kinora_block block{};
  block.struct_size = sizeof block;
  block.needs = 4;
  refused(c.block(c.self, &block, nullptr, &out), "a block");
}

// Gives the keys and values as codes, as a cache does.
struct GivesCodes final : Link<at::Tensor> {
  GivesCodes(at::Tensor codes, at::Tensor by)
      : Link(KINORA_LEVEL_CACHE), codes_(std::move(codes)), by_(std::move(by)) {
    skip_inherited<GivesCodes>();
  }
  at::Tensor attention(const at::Tensor& q, const at::Tensor&, const at::Tensor&,
                       const kinora_attention& how) override {
    auto coded = how;
    coded.needs |= KINORA_ATTENTION_CODES;
    coded.k_scales = coded.v_scales = handle(by_);
    return next.attention(q, codes_, codes_, coded);
  }

 private:
  at::Tensor codes_, by_;
};

TEST_F(ChainOf, TheBaseDecodesKeysAndValuesThatAreCodes) {
  at::manual_seed(2);
  const at::Tensor numbers = at::randint(-9, 9, {2, 5, 3, 4}, at::kDouble), by = at::rand({2, 5, 3, 1}) + 0.1;
  const at::Tensor q = at::randn({2, 4, 3, 4}, at::kDouble), k = numbers * by.to(at::kDouble);
  const Attention<at::Tensor> how{.name = "one", .scale = 0.5};
  // [B, heads, S, L] and its product with k, once more as the values.
  const at::Tensor scores = (at::einsum("bshd,blhd->bhsl", {q, k}) * 0.5).softmax(-1);
  const at::Tensor wanted = at::einsum("bhsl,blhd->bshd", {scores, k});
  for (const auto type : {at::kChar, at::kFloat8_e4m3fn}) {
    GivesCodes codes(numbers.to(type), by);
    Chain chain(exact(), {codes.get()});
    chain.ready();
    const at::Tensor made = ChainContext(chain.head()).attention(q, k, k, how);
    EXPECT_LT((made - wanted).abs().max().item<double>(), 1e-12);
  }
  GivesCodes flat(numbers.to(at::kChar), by.squeeze(3));
  struct KnowsNoCodes final : Link<at::Tensor> {
    KnowsNoCodes() : Link(KINORA_LEVEL_PRECISION) {}
  } no_codes;
  GivesCodes codes(numbers.to(at::kChar), by);
  const auto refused = [&](std::vector<const kinora_link*> links) {
    Chain chain(exact(), std::move(links));
    chain.ready();
    return test::refusal([&] { ChainContext(chain.head()).attention(q, k, k, how); });
  };
  EXPECT_THAT(refused({flat.get()}),
              HasSubstr("attention 'one': codes [2, 5, 3, 4] need scales [B, L, heads, 1]"));
  EXPECT_THAT(refused({codes.get(), no_codes.get()}), HasSubstr("needs of an attention is 1"));
}

// Links offer services to each other by id.
TEST_F(ChainOf, GetInterfaceAsksTheLinksInTheirOrder) {
  struct Offers final : Link<at::Tensor> {
    explicit Offers(uint32_t level) : Link(level) { skip_inherited<Offers>(); }
    const void* get_interface(const char* id, uint32_t) override {
      return std::string_view(id) == "acme.exchange/1" ? &level_ : nullptr;
    }
    uint32_t level_ = 0;
  } first(KINORA_LEVEL_CONTEXT), second(KINORA_LEVEL_CACHE);
  Chain chain(exact(), {second.get(), first.get()});
  const kinora_context& c = *chain.head();
  EXPECT_EQ(c.get_interface(c.self, "acme.exchange/1", 0), &first.level_);
  EXPECT_EQ(c.get_interface(c.self, "acme.other/1", 0), nullptr);
}

TEST_F(ChainOf, AnErrorOfALinkComesThroughWithItsCodeAndText) {
  struct Bad final : Link<at::Tensor> {
    Bad() : Link(KINORA_LEVEL_TENSOR) {}
    kinora_param parameter(const kinora_param_spec& s) override {
      throw Error(KINORA_ERROR_INVALID, std::string(s.name) + ": cannot be split");
    }
  } bad;
  Chain chain(exact(), {bad.get()});
  EXPECT_EQ(test::refusal([&] {
              ChainContext(chain.head()).parameter({"w", {4, 4}, Init::zeros()});
            }),
            "w: cannot be split");
}

TEST_F(ChainOf, ParametersAreDeclaredOnceAndHaveValuesAfterReady) {
  Chain chain(exact());
  const ChainContext c(chain.head());
  const auto w = c.parameter({"w", {3, 2}, Init::normal(0.5), Role::column});
  const auto f = c.parameter({"f", {2}, Init::constant(7), Role::whole, -1, 1, 1, true});
  EXPECT_THAT(test::refusal([&] {
                c.parameter({"w", {1}, Init::zeros()});
              }),
              HasSubstr("'w' was declared before"));
  EXPECT_THAT(test::refusal([&] { c.parameter({"", {1}, Init::zeros()}); }), HasSubstr("no name"));
  EXPECT_THAT(test::refusal([&] { c.value(w); }), HasSubstr("create() only declares"));
  EXPECT_THAT(test::refusal([&] { c.value(9); }), HasSubstr("never declared"));
  chain.ready();
  EXPECT_THAT(test::refusal([&] { c.parameter({"late", {1}, Init::zeros()}); }), HasSubstr("after create()"));
  EXPECT_TRUE(c.value(w).requires_grad());
  EXPECT_FALSE(c.value(f).requires_grad());
  EXPECT_TRUE(at::equal(c.value(f), at::full({2}, 7, at::kDouble)));
  ASSERT_EQ(chain.leaves().size(), 2U);
  EXPECT_TRUE(chain.leaves()[0].tensor.is_same(c.value(w))) << "one tensor for all callers";
  EXPECT_TRUE(chain.leaves()[1].frozen);
  Chain other(exact());
  ChainContext(other.head()).parameter({"f", {2}, Init::constant(7)});
  const auto again = ChainContext(other.head()).parameter({"w", {3, 2}, Init::normal(0.5), Role::column});
  other.ready();
  EXPECT_TRUE(at::equal(ChainContext(other.head()).value(again), c.value(w)))
      << "drawn by name, not by order";
}

TEST_F(ChainOf, LinearAsksTheHeadAndGivesTheDtypeOfX) {
  struct Doubled final : Link<at::Tensor> {
    Doubled() : Link(KINORA_LEVEL_FSDP) { skip_inherited<Doubled>(); }
    at::Tensor value(kinora_param p) override { return next.value(p) * 2; }
  } doubled;
  Chain chain(exact(), {doubled.get()});
  const ChainContext c(chain.head());
  const auto w = c.parameter({"w", {3, 2}, Init::normal(1)}), b = c.parameter({"b", {3}, Init::normal(1)});
  chain.ready();
  const auto x = at::randn({4, 2}, at::kDouble);
  EXPECT_TRUE(at::equal(c.linear(x, w, b, 0), at::linear(x, c.value(w), c.value(b))));
  EXPECT_EQ(c.linear(x.to(at::kBFloat16), w, 0, 0).scalar_type(), at::kBFloat16);
}

TEST_F(ChainOf, ThePassIsTheChainsAndLinksPutItBack) {
  struct Asks final : Link<at::Tensor> {
    Asks() : Link(KINORA_LEVEL_RECOMPUTE) {}
    void begin(const kinora_pass& p) override { seen = p.first_sample; }
    at::Tensor all_reduce(const at::Tensor& x) override {
      auto p = pass();
      p.recompute = 1;
      set_pass(p);
      return next.all_reduce(x);
    }
    int64_t seen = -1;
  } asks;
  Chain chain(exact(), {asks.get()});
  chain.ready();
  chain.begin(pass_of(42));
  EXPECT_EQ(asks.seen, 42);
  ChainContext(chain.head()).all_reduce(at::zeros({1}));
  EXPECT_EQ(chain.pass().recompute, 1U);
  EXPECT_EQ(chain.pass().first_sample, 42);
}

TEST_F(ChainOf, SequencesHaveOneNumberAGeometryAndATableOfTheOneProcessOrder) {
  auto o = exact();
  o.frames.start = 3;
  o.frames.chunk = 2;
  o.frames.causal = true;
  o.frames.cuts = {2, 4};
  Chain chain(o);
  chain.ready();
  const ChainContext c(chain.head());
  const auto x = at::randn({2, 4 * 2 * 3, 5}, at::kDouble);
  kinora_seq s = 0, again = 0, other = 0;
  EXPECT_TRUE(at::equal(c.sequence(x, 4, 2, 3, s), x));
  c.sequence(x, 4, 2, 3, again);
  c.sequence(x, 4, 3, 2, other);
  EXPECT_EQ(s, again);
  EXPECT_NE(s, other);
  EXPECT_TRUE(at::equal(c.gather(x, s), x));
  const auto t = c.table(s, Place::stream);
  EXPECT_EQ(t.sizes(), (at::IntArrayRef{1, 24, KINORA_TOKEN_COLUMNS}));
  // Token 22 is frame 3, row 1, column 1 of a video that started 3 frames ago, in chunk (3 + 3) / 2
  // of the second shot.
  const auto row = t[0][22];
  EXPECT_TRUE(at::equal(row, at::tensor({22 + 3 * 6, 3, 6, 1, 1, 0, 3, 0, 1}, at::kLong))) << row;
  EXPECT_THAT(test::refusal([&] { c.sequence(x, 4, 2, 2, s); }), HasSubstr("are 16, but x is [2, 24, 5]"));
  EXPECT_THAT(test::refusal([&] { c.table(0, Place::stream); }), HasSubstr("shared tensors have no table"));
}

TEST_F(ChainOf, SequencesArePaddedToAMultipleAndUnpadded) {
  auto o = exact();
  o.token_multiple = 8;
  Chain chain(o);
  chain.ready();
  chain.begin(pass_of(0));
  const ChainContext c(chain.head());
  const auto x = at::randn({2, 6, 8}, at::kDouble);
  kinora_seq s = 0;
  const auto y = c.sequence(x, 3, 2, 1, s);
  EXPECT_EQ(y.size(1), 8);
  const auto q = y.view({2, 8, 2, 4});
  Attention<at::Tensor> how{"a", 0, s, s, 0.5};
  const auto out = c.gather(c.attention(q, q, q, how).flatten(2), s), plain = x.view({2, 6, 2, 4});
  const auto want = at::scaled_dot_product_attention(plain.transpose(1, 2), plain.transpose(1, 2),
                                                     plain.transpose(1, 2), {}, 0, false, 0.5)
                        .transpose(1, 2)
                        .flatten(2);
  EXPECT_TRUE(at::allclose(out, want, 1e-12, 1e-12)) << "padding is not visible to any token";
  EXPECT_EQ(c.noise(y, s, "n").narrow(1, 6, 2).abs().sum().item<double>(), 0);
}

TEST_F(ChainOf, ParametersOfABlankChainAreZerosUntilTheyAreLoaded) {
  ChainOptions options = exact();
  options.blank = true;
  Chain chain(options);
  const ChainContext c(chain.head());
  const auto w = c.parameter({"w", {3, 2}, Init::normal(0.5), Role::column});
  const auto f = c.parameter({"f", {2}, Init::constant(7), Role::whole, -1, 1, 1, true});
  chain.ready();
  EXPECT_TRUE(at::equal(c.value(w), at::zeros({3, 2}, at::kDouble)) && c.value(w).requires_grad());
  EXPECT_TRUE(at::equal(c.value(f), at::zeros({2}, at::kDouble)) && !c.value(f).requires_grad());
}

TEST_F(ChainOf, ALinkMayTakeParametersOverPieceByPiece) {
  struct Flat final : Link<at::Tensor> {  // one rank's half of an FSDP unit of two parameters
    explicit Flat(int64_t r) : Link(KINORA_LEVEL_FSDP), rank(r) { skip_inherited<Flat>(); }
    void ready() override {
      const at::NoGradGuard guard;
      const auto all = at::cat({next.value(1).flatten(), next.value(2).flatten()});
      leaf = all.narrow(0, rank * 5, 5).clone().set_requires_grad(true);
    }
    bool piece(int64_t i, Piece& out) override {  // 6 + 4 elements, cut after the fifth
      const Piece first[] = {{1, 0, 5, leaf, 0}, {2, 0, 0, leaf, 0}},
                  second[] = {{1, 5, 1, leaf, 0}, {2, 0, 4, leaf, 1}};
      if (i > 1) return false;
      out = rank ? second[i] : first[i];
      return true;
    }
    int64_t rank;
    at::Tensor leaf;
  } low(0), high(1);
  at::Tensor whole[2];
  for (int k = 0; k < 3; ++k) {
    Flat* link = k == 0 ? nullptr : k == 1 ? &low : &high;
    Chain chain(exact(),
                link ? std::vector<const kinora_link*>{link->get()} : std::vector<const kinora_link*>{});
    const ChainContext c(chain.head());
    c.parameter({"a", {3, 2}, Init::normal(1)});
    c.parameter({"b", {4}, Init::uniform(1)});
    c.parameter({"c", {1}, Init::ones()});
    chain.ready();
    if (!link) {
      whole[0] = c.value(1).detach(), whole[1] = c.value(2).detach();
      continue;
    }
    const auto& leaves = chain.leaves();
    ASSERT_EQ(leaves.size(), 2U);
    EXPECT_EQ(leaves[0].name, k == 1 ? "a" : "a .. b");
    EXPECT_EQ(leaves[1].name, "c");
    EXPECT_TRUE(leaves[0].tensor.is_same(link->leaf));
    EXPECT_TRUE(at::equal(link->leaf, at::cat({whole[0].flatten(), whole[1]}).narrow(0, link->rank * 5, 5)));
    EXPECT_THAT(test::refusal([&] { c.value(1); }), HasSubstr("taken over by a link"));
  }
}

TEST_F(ChainOf, BlocksRunAndStopPassesThrough) {
  Chain chain(exact());
  chain.ready();
  const ChainContext c(chain.head());
  const auto x = at::ones({2});
  const auto y = c.block(0, {x}, {x * 2}, 2, [](const std::vector<at::Tensor>& t) {
    return std::vector{t[0] + t[1], t[1]};
  });
  EXPECT_EQ(y[0].sum().item<float>(), 6);
  EXPECT_THROW(c.block(0, {x}, {}, 1, [](const auto&) -> std::vector<at::Tensor> { throw Stop{}; }), Stop);
  EXPECT_EQ(test::refusal([&] {
              c.block(0, {x}, {}, 1, [](const auto&) -> std::vector<at::Tensor> {
                throw Error(KINORA_ERROR_DATA, "bad block");
              });
            }),
            "bad block");
  EXPECT_EQ(
      test::refusal([&] {
        c.block(3, {x}, {}, 1, [](const std::vector<at::Tensor>& t) { return std::vector{t[0], t[0]}; });
      }),
      "block 3 returned 2 tensors, but was declared with n_out = 1");
}

TEST_F(ChainOf, ACancelledRunEndsAtTheNextBlockOnlyWhereItMay) {
  for (const bool may_stop : {true, false}) {
    ChainOptions options = exact();
    options.may_stop = may_stop;
    Chain chain(options);
    chain.ready();
    const ChainContext c(chain.head());
    int64_t ran = 0;
    const auto forward = [&] {
      for (int64_t i = 0; i < 4; ++i)
        c.block(i, {at::ones({2})}, {}, 1, [&](const std::vector<at::Tensor>& t) {
          if (++ran == 2) cancel();
          return t;
        });
    };
    EXPECT_EQ(test::refusal(forward), may_stop ? "cancelled" : "nothing was refused");
    cancel(false);
    EXPECT_EQ(ran, may_stop ? 2 : 4);
  }
}

}  // namespace
}  // namespace kinora::core
