// Checks of collectives: a world of one rank, and one of two processes. Every result is known.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <numeric>
#include <unistd.h>

#include <sys/wait.h>

#include "apps/validate/trial_tensors.hpp"
#include "kinora/abi/collective.h"

namespace kinora {
namespace collective_checks_of {
namespace {

// This process as a rank of a world, and the group of all ranks.
class World {
 public:
  World(const PluginTrial& t, int64_t rank, int64_t size)
      : options_(t.options()), made_(t, options_), rendezvous_("file://" + t.folder + "/world") {
    kinora_world world{};
    world.struct_size = sizeof world;
    world.timeout_ms = 20000;
    world.rank = rank;
    world.size = size;
    world.rendezvous = rendezvous_.c_str();
    require([&] { return made_.api.join(made_.self, &world); },
            fmt::format("join() of rank {} of {} at file://", rank, size));
    std::vector<int64_t> all(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    require([&] { return made_.api.group(made_.self, "all", all.data(), all.size(), &group_); },
            "group() of all ranks");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    if (group_) made_.api.release(group_);
  }

  void require_refused(kinora_transfer transfer) const {
    void* work = nullptr;
    transfer.struct_size = sizeof transfer;
    kinora::require_refused([&] { return made_.api.start(group_, &transfer, &work); },
                            "start() of a transfer with an unknown bit of `needs`");
  }
  void* started(kinora_transfer transfer, const std::string& what) const {
    void* work = nullptr;
    transfer.struct_size = sizeof transfer;
    require([&] { return made_.api.start(group_, &transfer, &work); }, "start() of " + what);
    return work;
  }
  Tensor finished(void* work, const std::string& what) const {
    kinora_tensor out = nullptr;
    require([&] { return made_.api.finish(work, &out); }, "finish() of " + what);
    return Tensor::adopt(out);
  }
  Tensor transferred(const kinora_transfer& transfer, const std::string& what) const {
    return finished(started(transfer, what), what);
  }

 private:
  // Skips the check on a machine without the device that the collective needs.
  template <class Call>
  static void require(Call make, const std::string& call) {
    watch().now(call);
    const int32_t status = make();
    if (status == KINORA_ERROR_UNSUPPORTED) throw Skipped{call + ": " + last_message()};
    require_ok(status, call);
  }
  core::Options options_;
  TrialInstance<kinora_collective> made_;
  const std::string rendezvous_;
  void* group_ = nullptr;
};

std::string check_alone(PluginTrial& t) {
  const World world(t, 0, 1);
  const struct {
    const char* name;
    uint32_t op;
    int64_t dim, dim2;
  } cases[] = {
      {"ALL_REDUCE", KINORA_OP_ALL_REDUCE, 0, 0},  {"ALL_REDUCE_MAX", KINORA_OP_ALL_REDUCE_MAX, 0, 0},
      {"ALL_GATHER", KINORA_OP_ALL_GATHER, -1, 0}, {"REDUCE_SCATTER", KINORA_OP_REDUCE_SCATTER, 1, 0},
      {"ALL_TO_ALL", KINORA_OP_ALL_TO_ALL, 0, 1},  {"BROADCAST", KINORA_OP_BROADCAST, 0, 0}};
  const Tensor x = op("aten::t", "", {normal(t.subject.seed, {6, 4})});  // transfers take any strides
  for (const auto& c : cases)
    for (const int32_t dtype : {KINORA_DTYPE_FLOAT64, KINORA_DTYPE_FLOAT32, KINORA_DTYPE_INT64}) {
      const Tensor in = (x * 10.0).to(dtype);
      const auto before = numbers(in);
      const auto what = fmt::format("{} of dtype {}", c.name, dtype);
      const Tensor out = world.transferred({.op = c.op, .dim = c.dim, .dim2 = c.dim2, .in = in.get()}, what);
      if (!out.defined() || out.sizes() != in.sizes() || out.dtype() != dtype || numbers(out) != before)
        throw Error(KINORA_ERROR_FAILED,
                    what + " of one rank is not its own tensor, of the same shape and dtype");
      if (numbers(in) != before) throw Error(KINORA_ERROR_FAILED, what + " changes its input");
    }
  if (world.transferred({.op = KINORA_OP_BARRIER}, "BARRIER").defined())
    throw Error(KINORA_ERROR_FAILED, "finish() of BARRIER returns a tensor; it has none");
  return "";
}

constexpr int64_t kRows = 4, kColumns = 6;

// The operand of each operation on a rank: a matrix [kRows, kColumns] whose rows are not contiguous.
Tensor given_by(const PluginTrial& t, int64_t rank, int32_t dtype) {
  const uint64_t seed = t.subject.seed + static_cast<uint64_t>(rank);
  return (op("aten::t", "", {normal(seed, {kColumns, kRows})}) * 10.0).to(dtype);
}

// A matrix in float64, row by row.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> values;
  double at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
};

Matrix matrix(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)>& value) {
  Matrix out{rows, columns, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out.values.push_back(value(r, c));
  return out;
}

struct Transfer {
  const char* name;
  kinora_transfer how;
  Matrix expected;
};

// The operations of two ranks that give `a` and `b`, and what rank `me` gets. round: to the dtype.
std::vector<Transfer> transfers(const Matrix& a, const Matrix& b, int64_t me,
                                const std::function<double(double)>& round) {
  const auto sum = [&](int64_t r, int64_t c) { return round(a.at(r, c) + b.at(r, c)); };
  constexpr int64_t kHalf = kRows / 2, kPiece = kColumns / 2;
  const auto joined = [&](int64_t rows, int64_t first) {
    return matrix(rows, 2 * kColumns, [&](int64_t r, int64_t c) {
      return c < kColumns ? a.at(first + r, c) : b.at(first + r, c - kColumns);
    });
  };
  return {{"ALL_REDUCE", {.op = KINORA_OP_ALL_REDUCE}, matrix(kRows, kColumns, sum)},
          {"ALL_REDUCE_MAX",
           {.op = KINORA_OP_ALL_REDUCE_MAX},
           matrix(kRows, kColumns, [&](int64_t r, int64_t c) { return std::max(a.at(r, c), b.at(r, c)); })},
          {"ALL_GATHER along the last dim", {.op = KINORA_OP_ALL_GATHER, .dim = -1}, joined(kRows, 0)},
          {"REDUCE_SCATTER along dim 1",
           {.op = KINORA_OP_REDUCE_SCATTER, .dim = 1},
           matrix(kRows, kPiece, [&](int64_t r, int64_t c) { return sum(r, me * kPiece + c); })},
          {"ALL_TO_ALL from dim 0 to dim 1",
           {.op = KINORA_OP_ALL_TO_ALL, .dim = 0, .dim2 = 1},
           joined(kHalf, me * kHalf)},
          {"BROADCAST of rank 1", {.op = KINORA_OP_BROADCAST, .peer = 1}, b}};
}

void require_matrix(const std::string& what, const Tensor& out, const Matrix& expected, int32_t dtype) {
  if (!out.defined() || out.dtype() != dtype ||
      out.sizes() != std::vector<int64_t>{expected.rows, expected.columns})
    throw Error(KINORA_ERROR_FAILED, fmt::format("{}: the result is not [{}, {}] of dtype {}", what,
                                                 expected.rows, expected.columns, dtype));
  const auto found = numbers(out);
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != expected.values[i])
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("{}: number {} is {}, expected {}", what, i, found[i], expected.values[i]));
}

// Rank 0 sends with two tags, rank 1 receives in the other order.
void check_tags(const World& world, const PluginTrial& t, int64_t me) {
  const Tensor first = given_by(t, 0, KINORA_DTYPE_FLOAT32), second = first * 2.0;
  const auto how = [&](uint32_t op, int64_t tag, const Tensor& in) {
    return kinora_transfer{.op = op, .peer = 1 - me, .tag = tag, .in = in.get()};
  };
  if (me == 0) {
    void* const one = world.started(how(KINORA_OP_SEND, 5, first), "SEND");
    void* const two = world.started(how(KINORA_OP_SEND, 4, second), "SEND");
    world.finished(one, "SEND");
    world.finished(two, "SEND");
    return;
  }
  for (const auto& [tag, sent] : {std::pair{4, second}, {5, first}}) {
    const auto what = fmt::format("RECV of tag {} by rank 1", tag);
    require_matrix(what, world.transferred(how(KINORA_OP_RECV, tag, first), what),
                   {kRows, kColumns, numbers(sent)}, KINORA_DTYPE_FLOAT32);
  }
}

void act_as_rank(const PluginTrial& t, int64_t me) {
  const World world(t, me, 2);
  for (const int32_t dtype : {KINORA_DTYPE_FLOAT64, KINORA_DTYPE_FLOAT32, KINORA_DTYPE_INT64}) {
    const Tensor of[] = {given_by(t, 0, dtype), given_by(t, 1, dtype)};
    const auto given = [&](int rank) { return Matrix{kRows, kColumns, numbers(of[rank])}; };
    const auto round = [&](double x) { return dtype == KINORA_DTYPE_FLOAT32 ? static_cast<float>(x) : x; };
    for (auto& one : transfers(given(0), given(1), me, round)) {
      const auto what = fmt::format("{} of dtype {} on rank {} of 2", one.name, dtype, me);
      one.how.in = of[me].get();
      require_matrix(what, world.transferred(one.how, what), one.expected, dtype);
    }
  }
  check_tags(world, t, me);
}

// The end of the process of rank 1, as rank 0 reads it: "" or its error, after 's' where it was skipped.
[[noreturn]] void end_as_rank_1(PluginTrial t, int into) {
  t.now = watch().now = [](const std::string&) {};  // rank 0 names the calls
  std::string said;
  try {
    act_as_rank(t, 1);
  } catch (const Skipped& s) {
    said = "s" + s.why;
  } catch (const std::exception& e) {
    said = std::string("f") + e.what();
  }
  [[maybe_unused]] const auto written = ::write(into, said.data(), std::min<size_t>(said.size(), PIPE_BUF));
  ::_exit(0);
}

std::string check_together(PluginTrial& t) {
  int ends[2];
  if (::pipe(ends) != 0) throw Error(KINORA_ERROR_FAILED, std::string("pipe: ") + std::strerror(errno));
  const pid_t other = ::fork();
  if (other == 0) end_as_rank_1(t, ends[1]);
  ::close(ends[1]);
  if (other < 0) throw Error(KINORA_ERROR_FAILED, std::string("fork: ") + std::strerror(errno));
  std::string of_rank_0, of_rank_1(PIPE_BUF, ' ');
  std::optional<Skipped> skipped;
  try {
    act_as_rank(t, 0);
  } catch (const Skipped& s) {
    skipped = s;
  } catch (const std::exception& e) {
    of_rank_0 = e.what();
  }
  t.now("the end of rank 1");
  const ssize_t n = ::read(ends[0], of_rank_1.data(), of_rank_1.size());
  of_rank_1.resize(static_cast<size_t>(std::max<ssize_t>(0, n)));
  ::close(ends[0]);
  int end = 0;
  ::waitpid(other, &end, 0);
  if (skipped) throw *skipped;
  if (of_rank_0.empty() && of_rank_1.starts_with('f')) of_rank_0 = of_rank_1.substr(1);
  if (of_rank_0.empty() && end != 0) of_rank_0 = "rank 1 of 2 ended its process";
  if (!of_rank_0.empty()) throw Error(KINORA_ERROR_FAILED, of_rank_0);
  return "two processes of this machine";
}

std::string check_unknown_needs(PluginTrial& t) {
  const World world(t, 0, 1);
  const Tensor x = normal(t.subject.seed, {6, 4});
  world.require_refused({.op = KINORA_OP_ALL_REDUCE, .in = x.get(), .needs = kUnknownNeed});
  return "";
}

constexpr Check kChecks[] = {
    {"alone", "collective", "every operation returns its own tensor in a world of one rank", false, nullptr,
     check_alone},
    {"collective-needs", "collective", "it refuses a transfer that needs what it does not know", false,
     nullptr, check_unknown_needs},
    {"together", "collective", "every operation of two processes gives what it is defined to give", false,
     nullptr, check_together}};

}  // namespace
}  // namespace collective_checks_of

std::span<const Check> collective_checks() { return collective_checks_of::kChecks; }

}  // namespace kinora
