// Latents of windows that are kept on disk, on real clips.
#include "plugins/jobs/windows/kept_latents.hpp"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "plugins/jobs/windows/encoded_windows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSlots = 10;

struct WindowsOfARun {
  std::vector<EncodedWindows::Window> all;
  uint64_t hits = 0;
};

// The first windows of the run's shards as a table of data. folder: keeps their latents; "": none does. limit: of
// the folder, in bytes; 0: the default.
WindowsOfARun windows_of(const ScratchRun& run, const fs::path& folder, uint64_t limit = 0) {
  JobSpec spec = run.spec("latents");
  spec.data = DataInput{.path = run.of("shards").string(), .parts = {}, .shuffle = 3};
  spec.options["latent_cache"] = folder.string();
  if (limit > 0) spec.options["latent_cache_limit"] = limit;
  EncodedWindows live(JobView(test::runtime(), run.run(), spec), at::kCPU);
  WindowsOfARun out;
  for (uint64_t slot = 0; slot < kSlots; ++slot)
    out.all.push_back(live.at(slot, [](const std::string&) { return true; }));
  out.hits = live.latent_hits();
  return out;
}

// Windows that came before in the list.
uint64_t repeated(const WindowsOfARun& of) {
  std::set<std::string> keys;
  for (const auto& window : of.all) keys.insert(window.key);
  return of.all.size() - keys.size();
}

void expect_equal(const WindowsOfARun& got, const WindowsOfARun& want) {
  ASSERT_EQ(got.all.size(), want.all.size());
  for (size_t i = 0; i < want.all.size(); ++i) {
    EXPECT_EQ(got.all[i].key, want.all[i].key);
    ASSERT_EQ(got.all[i].tensors.size(), want.all[i].tensors.size());
    for (const auto& [name, tensor] : want.all[i].tensors)
      EXPECT_TRUE(at::equal(got.all[i].tensors.at(name), tensor)) << name << i;
  }
}

void damage_all_in(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x7f').put('\x11');
  }
}

TEST(KeptLatents, AreThoseOfTheFirstRunAndDamagedOnesAreMadeAgain) {
  const auto run = prepared({{"latents", "first_frame = true\n"}});
  const fs::path folder = run->folder() / "kept";
  const auto plain = windows_of(*run, "");
  EXPECT_EQ(plain.hits, 0u);
  const auto first = windows_of(*run, folder);
  expect_equal(first, plain);
  EXPECT_EQ(first.hits, repeated(plain));
  const auto second = windows_of(*run, folder);
  expect_equal(second, plain);
  EXPECT_EQ(second.hits, kSlots);
  damage_all_in(folder);
  const auto third = windows_of(*run, folder);
  expect_equal(third, plain);
  EXPECT_EQ(third.hits, repeated(plain));
  EXPECT_EQ(windows_of(*run, folder).hits, kSlots);
}

TEST(KeptLatents, AreOfTheirTokenizersWeightsAndClips) {
  const auto run = prepared();
  const fs::path folder = run->folder() / "kept", weights = run->of("tokenizer") / "weights.safetensors";
  const auto first = windows_of(*run, folder);
  auto changed = read_tensors(weights);
  NamedTensors other;
  for (const auto& [name, tensor] : changed) other[name] = tensor * 1.5;
  changed.clear();
  write_tensors(weights, other);
  const auto second = windows_of(*run, folder);
  EXPECT_EQ(second.hits, repeated(second)) << "the weights are others";
  EXPECT_FALSE(at::equal(second.all[0].tensors.at("latent"), first.all[0].tensors.at("latent")));
  // The keys a and c change their videos.
  const fs::path fields = run->folder() / "fields";
  fs::rename(fields / "a.mp4", fields / "x.mp4"), fs::rename(fields / "c.mp4", fields / "a.mp4");
  fs::rename(fields / "x.mp4", fields / "c.mp4");
  ASSERT_EQ(std::system(fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.*",
                                    fields.string(), run->of("shards").string())
                            .c_str()),
            0);
  for (const auto& entry : fs::directory_iterator(run->of("shards")))
    if (entry.path().extension() != ".tar") fs::remove_all(entry.path());
  const auto swapped = windows_of(*run, folder), plain = windows_of(*run, "");
  expect_equal(swapped, plain);
}

std::vector<uint64_t> sizes_in(const fs::path& folder) {
  std::vector<uint64_t> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out.push_back(entry.file_size());
  return out;
}

TEST(KeptLatents, TakeNoMoreThanTheirLimit) {
  const auto run = prepared();
  const auto all = windows_of(*run, run->folder() / "all");
  const auto sizes = sizes_in(run->folder() / "all");
  ASSERT_EQ(sizes.size(), kSlots - repeated(all));
  const uint64_t limit = 2 * *std::max_element(sizes.begin(), sizes.end());
  expect_equal(windows_of(*run, run->folder() / "two", limit), all);
  const auto left = sizes_in(run->folder() / "two");  // each is more than a sixteenth of the limit
  EXPECT_LE(std::accumulate(left.begin(), left.end(), uint64_t{0}), limit);
  EXPECT_THAT(left, testing::Not(testing::IsEmpty()));
}

TEST(KeptLatents, AreRefusedWhereNoneWouldBeFoundAgain) {
  const auto run = prepared({{"latents", "transforms = ['video.flip']\n"}});
  EXPECT_THAT(test::refusal([&] { windows_of(*run, run->folder() / "kept"); }),
              HasSubstr("video.flip changes the decoded frames"));
  const auto cached = prepared({{"latents", "latent_cache = 'kept'\n"}});
  EXPECT_THAT(test::refusal([&] { encoded(*cached); }), HasSubstr("latent_cache is for a table of data"));
}

}  // namespace
}  // namespace kinora::core
