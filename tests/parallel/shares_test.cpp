// Items of an encoder in front of a sequence: shared over the ranks and placed among its tokens, against one
// process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/row_transfer.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::test {
namespace {

using at::Tensor;

constexpr int64_t kIn = 3, kWidth = 4;

// Items of a sequence, and a text token everywhere else.
struct Joined {
  std::vector<double> costs;
  std::vector<int64_t> index, rows;
  int64_t tokens;
  std::vector<std::array<int64_t, 3>> packed;  // samples; empty: one
};

const Joined kCases[] = {
    {{3, 1, 2}, {1, 5, 8}, {3, 1, 2}, 12, {}},
    {{1, 9, 1, 1, 4}, {9, 0, 4, 7, 6}, {2, 4, 1, 2, 1}, 13, {{{6, 1, 1}}, {{7, 1, 1}}}},  // in any order
    {{1}, {2}, {5}, 9, {}},  // fewer items than ranks
    {{}, {}, {}, 7, {}},
};

Tensor drawn(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

// The model: rows of each item times a matrix, joined with the text by their place. pixels [all rows, kIn], of all
// items on every rank; text [1, tokens, kWidth].
Tensor joined(const Context<Tensor>& c, const Joined& j, const Tensor& pixels, const Tensor& weight,
              const Tensor& text) {
  kinora_seq seq = 0;
  const Tensor x = j.packed.empty() ? c.sequence(text, j.tokens, 1, 1, seq) : c.packed(text, j.packed, seq);
  const Tensor mine = c.share(j.costs);
  std::vector<Tensor> own{pixels.narrow(0, 0, 0)};
  std::vector<int64_t> first{0};
  for (const int64_t n : j.rows) first.push_back(first.back() + n);
  for (int64_t i = 0; i < mine.numel(); ++i) {
    const auto item = static_cast<size_t>(mine[i].item<int64_t>());
    own.push_back(pixels.narrow(0, first[item], j.rows[item]));
  }
  return c.gather((x + c.place(at::matmul(at::cat(own), weight), j.index, j.rows, seq)).tanh(), seq);
}

// The same without a context.
Tensor expected(const Joined& j, const Tensor& pixels, const Tensor& weight, const Tensor& text) {
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < j.tokens; ++t) {
    Tensor row = text[0][t];
    int64_t first = 0;
    for (size_t i = 0; i < j.rows.size(); first += j.rows[i++])
      if (t >= j.index[i] && t < j.index[i] + j.rows[i])
        row = row + at::matmul(pixels[first + t - j.index[i]], weight);
    rows.push_back(row);
  }
  return at::stack(rows).unsqueeze(0).tanh();
}

double off(const Tensor& a, const Tensor& b) { return a.numel() ? (a - b).abs().max().item<double>() : 0; }

void expect_equal(const Context<Tensor>& c, core::Chain& chain, const Group<Tensor>* ranks,
                  const std::string& what) {
  int64_t step = 0;
  for (const Joined& j : kCases) {
    at::manual_seed(7);
    int64_t all = 0;
    for (const int64_t n : j.rows) all += n;
    const auto leaf = [](const Tensor& t) { return t.clone().set_requires_grad(true); };
    const Tensor pixels = drawn({all, kIn}), weight = drawn({kIn, kWidth}),
                 text = drawn({1, j.tokens, kWidth}), by = drawn({1, j.tokens, kWidth});
    const std::vector<Tensor> got{leaf(pixels), leaf(weight), leaf(text)},
        want{leaf(pixels), leaf(weight), leaf(text)};
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.first_sample = step++;
    chain.begin(pass);
    const Tensor y = joined(c, j, got[0], got[1], got[2]), z = expected(j, want[0], want[1], want[2]);
    EXPECT_LT(off(y, z), 1e-12) << what << ", case " << step;
    (y * by).sum().backward();
    (z * by).sum().backward();
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor own = got[i].grad().defined() ? got[i].grad() : at::zeros_like(got[i]),
                   right = want[i].grad().defined() ? want[i].grad() : at::zeros_like(want[i]);
      EXPECT_LT(off(ranks ? ranks->sum(own) : own, right), 1e-12)
          << what << ", case " << step << ", gradient " << i;
    }
  }
}

core::ChainOptions exact() {
  core::ChainOptions options;
  options.dtype = at::kDouble;
  options.frames.before = true;
  return options;
}

TEST(Shares, OfOneProcessAreAllItems) {
  plugins();  // offers libtorch
  core::Chain chain(exact());
  chain.ready();
  const Context<Tensor> c(chain.head());
  EXPECT_TRUE(c.share({3, 1, 2}).equal(at::arange(3, at::kLong)));
  expect_equal(c, chain, nullptr, "one process");
}

TEST(Shares, OfRanksEqualOneProcessInEverySplit) {
  for (const auto& [size, parallel] : std::vector<std::pair<int, std::string>>{
           {2, "['cp-ulysses']"},
           {3, "[{ use = 'cp-ring', order = 'zigzag' }]"},
           {2, "['tp']"},
           {4, "[{ use = 'tp', size = 2 }, { use = 'cp-ulysses', size = 2 }]"}})
    on_ranks(size, [&, parallel = parallel](const Rank& me) {
      StrategyChain model(me, parallel, exact());
      model.chain.ready();
      const Group<Tensor> ranks(&model.strategies.group("cp+tp"));
      expect_equal(model.ctx, model.chain, &ranks, parallel);
    });
}

TEST(Shares, GiveEachItemOneRankByItsCost) {
  on_ranks(2, [](const Rank& me) {
    StrategyChain model(me, "['cp-ulysses']", exact());
    model.chain.ready();
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    model.chain.begin(pass);
    const Tensor mine = model.ctx.share({1, 5, 2, 2});
    EXPECT_TRUE(mine.equal(me.rank == 0 ? at::tensor({1}, at::kLong) : at::tensor({0, 2, 3}, at::kLong)));
  });
}

TEST(Shares, RefuseRowsThatDoNotFitTheirItems) {
  core::Chain chain(exact());
  chain.ready();
  const Context<Tensor> c(chain.head());
  kinora_seq seq = 0;
  c.sequence(drawn({1, 6, kWidth}), 6, 1, 1, seq);
  const Tensor rows = drawn({3, kWidth});
  EXPECT_NE(refusal([&] { c.place(rows, {1}, {2}, seq); }).find("makes 2 rows, and [3, 4]"),
            std::string::npos);
  EXPECT_NE(refusal([&] { c.place(rows, {5}, {3}, seq); }).find("2 rows of the items are outside"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              c.place(rows, {1, 2}, {2, 1}, seq);
            }).find("two items overlap"),
            std::string::npos);
  const Tensor none = drawn({0, kWidth});
  EXPECT_NE(refusal([&] {
              c.place(none, {0, 100}, {-2, 2}, seq);
            }).find("item 0 has -2 rows from INDEX 0 on"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              c.place(rows.narrow(0, 0, 1), {-1}, {1}, seq);
            }).find("item 0 has 1 rows from INDEX -1 on"),
            std::string::npos)
      << "padding is no token";
}

TEST(Shares, RefuseARowThatNoRankHoldsWhereAnotherIsHeldTwice) {
  const Tensor held = at::tensor({0, 1, 0, 1}, at::kLong).unsqueeze(0);
  EXPECT_NE(refusal([&] {
              RowTransfer::to_holders(Group<Tensor>(), {{0}, {1}, {2}}, held);
            }).find("1 rows of the items are outside"),
            std::string::npos);
}

TEST(Shares, OfAnEarlierForwardAreNotThoseOfALaterOne) {
  on_ranks(2, [](const Rank& me) {
    StrategyChain model(me, "['cp-ulysses']", exact());
    model.chain.ready();
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    model.chain.begin(pass);
    model.ctx.share({1, 5});
    model.chain.begin(pass);
    kinora_seq seq = 0;
    model.ctx.sequence(drawn({1, 6, kWidth}), 6, 1, 1, seq);
    EXPECT_NE(refusal([&] {
                model.ctx.place(drawn({2, kWidth}), {0, 2}, {2, 2}, seq);
              }).find("this forward shared no 2 items"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace kinora::test
