// Tests the encode job on several ranks: the files are those of one process, byte for byte, although each
// rank encodes its own clips or its own stretch of time.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "core/run/job.hpp"
#include "core/torch/media/streaming.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using test::Rank;

std::string text_of(const fs::path& file) {
  const auto bytes = read_bytes(file);
  return {bytes.begin(), bytes.end()};
}

// Wan's encoder depends on a few earlier frames.
constexpr const char* kWan =
    "tokenizer = { use = 'wan', base_dim = 4, z_dim = 2, dim_mult = [1, 1, 1], temperal_downsample = [0, 1], "
    "num_res_blocks = 1, normalise = false }";
// A run up to the encode job, which gets these lines.
std::unique_ptr<ScratchRun> before_encoding(const std::string& lines, bool wan = false) {
  std::map<std::string, std::string> more{{"latents", "threads = 1\n" + lines}};
  if (wan) more["tokenizer"] = kWan;
  return prepared(more);
}

// Replaces the clips of these keys by bytes that are not videos, in a shard of the same size.
void spoil(const ScratchRun& run, const std::string& keys) {
  for (const char key : keys) {
    const fs::path file = run.folder() / "fields" / (std::string(1, key) + ".mp4");
    const auto size = fs::file_size(file);
    std::ofstream(file) << std::string(size, 'x');
  }
  ASSERT_EQ(std::system(
                fmt::format("cd '{}/fields' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.*",
                            run.folder().string(), run.of("shards").string())
                    .c_str()),
            0);
}

// The job's folder is shared by all ranks, as in a launch. Returns the summary, or the message of what was
// thrown.
json encode_on(const Rank& me, const ScratchRun& run, const fs::path& shared) {
  me.launched();
  fs::create_directories(shared);
  if (!fs::exists(run.of("latents"))) fs::create_directory_symlink(shared, run.of("latents"));
  JobContext context = run.context("latents", me.rank == 0);
  json out;
  try {
    test::run_job(context);
    out = context.summary;
  } catch (const Error& e) {
    out = e.what();
  }
  Rank::alone();
  return out;
}

void expect_files_of_one_process(const Rank& me, const std::string& lines, const fs::path& shared,
                                 bool wan = false) {
  const auto run = before_encoding(lines, wan);
  const fs::path alone = fs::path(me.folder) / (shared.filename().string() + ".alone");
  const json summary = encode_on({0, 1, me.folder, 0}, *run, alone);
  ASSERT_TRUE(summary.is_object()) << summary;
  EXPECT_GT(LatentCache(alone / "latents.h5").keys().size(), 1U);
  EXPECT_EQ(text_of(shared / "latents.h5"), text_of(alone / "latents.h5"));
  EXPECT_EQ(text_of(shared / "latents.json"), text_of(alone / "latents.json"));
  EXPECT_FALSE(fs::exists(shared / ".parts"));
}

TEST(EncodeOnRanks, LeavesTheFilesOfOneProcess) {
  for (const int ranks : {2, 3})
    test::on_ranks(ranks, [](const Rank& me) {
      const auto run = before_encoding("first_frame = true\n");
      const fs::path shared = fs::path(me.folder) / "together";
      const json summary = encode_on(me, *run, shared);
      ASSERT_TRUE(summary.is_object()) << summary;
      if (me.rank > 0) return;
      EXPECT_EQ(summary.at("samples"), 4);
      EXPECT_EQ(summary.at("failed"), 1) << "a damaged clip fails alone";
      EXPECT_EQ(summary.at("too_short"), 1);
      expect_files_of_one_process(me, "first_frame = true\n", shared);
    });
}

// Each rank can read its own clips only: the first a and c, the second b (which no rank can read) and d.
TEST(EncodeOnRanks, DividesTheClips) {
  test::on_ranks(2, [](const Rank& me) {
    const auto run = before_encoding("frames = 5\n");
    spoil(*run, me.rank == 0 ? "d" : "ac");
    const fs::path shared = fs::path(me.folder) / "together";
    const json summary = encode_on(me, *run, shared);
    ASSERT_TRUE(summary.is_object()) << summary;
    if (me.rank > 0) return;
    EXPECT_EQ(summary.at("failed"), 1);
    expect_files_of_one_process(me, "frames = 5\n", shared);
  });
}

TEST(EncodeOnRanks, GoOnAfterARankHasFailed) {
  test::on_ranks(2, [](const Rank& me) {
    const fs::path shared = fs::path(me.folder) / "together", blocked = shared / ".parts" / "000003.h5";
    fs::create_directories(blocked);  // a folder blocks the path of the second rank's last part
    std::ofstream(blocked / "x") << "x";
    me.meet("blocked");
    const auto run = before_encoding("frames = 5\n");
    const json failed = encode_on(me, *run, shared);
    ASSERT_TRUE(failed.is_string()) << "rank " << me.rank << ": " << failed;
    EXPECT_THAT(failed.get<std::string>(), testing::HasSubstr("000003.h5")) << "and the first rank names it";
    if (me.rank == 0) {
      EXPECT_THAT(failed.get<std::string>(), testing::StartsWith("rank 1: "));
      EXPECT_TRUE(fs::exists(shared / ".parts" / "000002.json"));
      fs::remove_all(blocked);
    }
    me.meet("mended");
    // Encoded clips are not read again; only d, on one rank or the other, is left, and b, which failed.
    spoil(*run, "ac");
    const json summary = encode_on(me, *run, shared);
    ASSERT_TRUE(summary.is_object()) << summary;
    if (me.rank == 0) expect_files_of_one_process(me, "frames = 5\n", shared);
  });
}

// 1 MiB cannot hold a clip of 125 frames of 48 x 64 pixels: ranks read their stretches.
constexpr const char* kLong =
    "height = 48\nwidth = 64\nevery = 1\nframes = 25\nstride = 50\nmemory = '1 MiB'\nfirst_frame = true\n";

TEST(EncodeOnRanks, DividesTheTimeOfEveryClip) {
  for (const int ranks : {2, 3})
    test::on_ranks(
        ranks,
        [](const Rank& me) {
          for (const bool fits : {true, false}) {
            const std::string lines = fits ? "frames = 13\n" : kLong;
            const auto run = before_encoding(lines + "parallel = ['balanced-sp']\n", true);
            const fs::path shared = fs::path(me.folder) / (fits ? "short" : "long");
            const json summary = encode_on(me, *run, shared);
            ASSERT_TRUE(summary.is_object()) << summary;
            if (me.rank == 0) expect_files_of_one_process(me, lines, shared, true);
            me.meet(shared.filename().string());
          }
        },
        120);
}

TEST(EncodeOnRanks, LeavesOutAClipThatOneRankCannotRead) {
  test::on_ranks(2, [](const Rank& me) {
    const auto run = before_encoding("frames = 13\nparallel = ['balanced-sp']\n", true);
    if (me.rank == 1) spoil(*run, "a");
    const fs::path shared = fs::path(me.folder) / "together";
    const json summary = encode_on(me, *run, shared);
    ASSERT_TRUE(summary.is_object()) << summary;
    if (me.rank > 0) return;
    EXPECT_EQ(summary.at("failed"), 2);
    EXPECT_THAT(LatentCache(shared / "latents.h5").keys(), testing::ElementsAre("c@0"));
  });
}

// A rank's memory therefore falls with the number of ranks.
TEST(EncodeOnRanks, LooksAtItsStretchAndTheHaloOnly) {
  test::on_ranks(3, [](const Rank& me) {
    const at::NoGradGuard off;
    const auto run = before_encoding("parallel = ['balanced-sp']\n", true);
    me.launched();
    JobContext context = run->context("latents", false);
    const Parallelism parallel(context);
    const auto tokenizer = run->tokenizer("tokenizer", at::kDouble);
    const auto info = tokenizer->info();
    const int64_t pieces = 3 * (info.encode_span + 4), frames = 1 + (pieces - 1) * info.time;
    const at::Tensor video = test::numbers("film", {1, 3, frames, 8, 8}).mul(0.5);
    int64_t seen = 0;
    const at::Tensor together = encode_together(
        *tokenizer, frames,
        [&](int64_t at, int64_t n) {
          seen += n;
          return video.narrow(2, at, n);
        },
        at::kCPU, parallel.of_sample());
    const Stretch own = frames_behind(info, frames, stretch_of(pieces, me.rank, me.size));
    EXPECT_EQ(seen, own.count);
    EXPECT_LE(seen, (pieces / 3 + info.encode_span) * info.time + 1);
    EXPECT_EQ(together.defined(), me.rank == 0);
    if (me.rank == 0) {
      EXPECT_TRUE(together.equal(tokenizer->encode(video)));
    }
  });
}

TEST(EncodeOnRanks, RefusesStrategiesThatCutWhatIsWhole) {
  const auto said = [](const std::string& parallel, bool wan) {
    const auto run = before_encoding("parallel = ['" + parallel + "']\n", wan);
    JobContext context = run->context("latents");
    return test::refusal([&] { test::run_job(context); });
  };
  for (const char* strategy : {"fsdp", "tp", "pp", "cfg"})
    EXPECT_THAT(said(strategy, true),
                testing::HasSubstr("give ddp, which divides the clips, or a strategy along cp"))
        << strategy;
  EXPECT_THAT(said("balanced-sp", false),
              testing::HasSubstr(
                  "tokenizer/cosmos encodes a frame together with all earlier ones, so the time of a clip "
                  "cannot be divided along cp; give ddp"));
}

TEST(LongClips, AreCountedAndReadInParts) {
  const auto run = prepared();
  JobContext context = run->context("latents");
  const json size = {{"height", 64}, {"width", 96}};
  const int64_t frame = 64 * 96 * 3;
  Clips whole(context, run->of("shards"), size, int64_t{1} << 30);
  json small = size;
  small["memory"] = 1 << 20;
  Clips parts(context, run->of("shards"), small, 1 << 20);
  const at::Tensor all = whole.try_frames(0);
  ASSERT_GT(all.numel(), 1 << 20) << "it would be held as a whole";
  EXPECT_EQ(parts.try_length(0), all.size(0));
  for (const auto& [first, count] :
       {std::pair<int64_t, int64_t>{3, 10}, {20, 70}, {0, 1}, {all.size(0) - 2, 2}}) {
    const at::Tensor got = parts.frames(0, first, count);
    EXPECT_TRUE(got.equal(all.narrow(0, first, count))) << first << " + " << count;
    EXPECT_LE(static_cast<int64_t>(got.storage().nbytes()), std::max<int64_t>(1 << 20, count * frame));
  }
  EXPECT_EQ(parts.try_length(1), std::nullopt) << "b is not a video";
  EXPECT_EQ(parts.failed(), 1);
}

}  // namespace
}  // namespace kinora::core
