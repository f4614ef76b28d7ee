#include "plugins/jobs/data/index.hpp"

#include <chrono>

#include <gmock/gmock.h>

#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/data/data_testing.hpp"
#include "plugins/jobs/data/record.hpp"
#include "plugins/jobs/data/scan_shard.hpp"
#include "plugins/jobs/data/stored_index.hpp"

namespace kinora::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Index : public DataTest {
 protected:
  // "KEY OFFSET+SIZE: FIELD=CONTENT ..." of all samples in index.sqlite.
  std::vector<std::string> rows(uint64_t shards) {
    StoredIndex stored(root / ".nv-meta/index.sqlite");
    std::vector<std::string> out;
    const DataFolder folder = find_shards(root);
    for (uint64_t i = 0; i < shards; ++i) {
      const std::string tar = slurp(folder.shards[i].uri);
      stored.begin(i);
      while (const auto sample = stored.next()) {
        std::string text = fmt::format("{} {}+{}:", sample->key, sample->offset, sample->size);
        for (const auto& part : sample->parts)
          text += " " + part.name + "=" + tar.substr(part.offset, part.size);
        out.push_back(text);
      }
    }
    return out;
  }
};

TEST_F(Index, HasEverySampleAndFieldOfAllShards) {
  write("a-000.tar", shard("a", 2));
  write("deep/b-000.tar", shard("b", 1));
  const auto report = index();
  EXPECT_EQ(report.shards, 2u);
  EXPECT_EQ(report.samples, 3u);
  EXPECT_THAT(rows(2), ElementsAre("a0 0+2048: json={\"n\": 0} txt=sample a0",
                                   "a1 2048+2048: json={\"n\": 1} txt=sample a1",
                                   "b0 0+2048: json={\"n\": 0} txt=sample b0"));
  EXPECT_THAT(meta(".info.json"), HasSubstr("\"a-000.tar\": 2,\n    \"deep/b-000.tar\": 1"));
  EXPECT_THAT(meta("split.yaml"), HasSubstr("  - deep/b-000.tar\n"));
  EXPECT_THAT(meta("dataset.yaml"), HasSubstr("CrudeWebdataset"));
  EXPECT_THAT(lines, IsEmpty());
  const auto samples = core::or_throw(core::WebDatasetShard::open((root / "a-000.tar").string()));
  EXPECT_EQ(core::or_throw(samples.at(1)).key(), "a1") << "the loader reads by .tar.idx";
}

TEST_F(Index, IsTheSameWithAnyNumberOfThreads) {
  for (int i = 0; i < 20; ++i)
    write(fmt::format("s-{:03}.tar", i), shard(fmt::format("{}-", i), 1 + 400 * (i % 4)));
  index({.threads = 1});
  const std::string one = meta("index.sqlite"), uuid = meta("index.uuid");
  fs::remove_all(root / ".nv-meta");
  index({.threads = 7});
  EXPECT_TRUE(meta("index.sqlite") == one);
  EXPECT_EQ(meta("index.uuid"), uuid);
}

TEST_F(Index, ReadsOnlyWhatChanged) {
  for (const char* name : {"a", "b", "c"}) write(std::string(name) + ".tar", shard(name, 3));
  EXPECT_FALSE(index().is_current);
  EXPECT_TRUE(index().is_current);
  const std::string before = meta("index.sqlite");
  write("b.tar", shard("other", 4));
  write("d.tar", shard("d", 1));
  const auto report = index();
  EXPECT_EQ(report.unchanged, 2u);
  EXPECT_EQ(report.samples, 11u);
  const std::string after = meta("index.sqlite");
  fs::remove_all(root / ".nv-meta");
  index();
  EXPECT_TRUE(meta("index.sqlite") == after) << "as if all had been read";
  EXPECT_FALSE(after == before);
  EXPECT_EQ(index({.again = true}).unchanged, 0u);
  fs::remove(root / "c.tar.idx");
  EXPECT_EQ(index().unchanged, 3u);
  EXPECT_TRUE(fs::exists(root / "c.tar.idx"));
}

TEST_F(Index, OfAnotherProgramIsNotTrusted) {
  write("a.tar", shard("a", 3));
  index();
  write(".nv-meta/index.uuid", "of another program");
  EXPECT_EQ(index().unchanged, 0u);
  write(".nv-meta/index.sqlite", "not a database");
  EXPECT_EQ(index().samples, 3u);
  EXPECT_EQ(rows(1).size(), 3u);
  write(".nv-meta/kinora.index.json", "{\"shards\": {\"a.tar\": \"x\"}}");
  EXPECT_EQ(index().unchanged, 0u);
}

TEST_F(Index, HasTheSamplesBeforeTheDamageOfAShard) {
  const std::string whole = shard("b", 4);
  std::string wrong_checksum = whole;
  wrong_checksum[2 * 2048 + 10] = 'x';  // in the header of b2.json
  write("a.tar", shard("a", 2));
  write("checksum.tar", wrong_checksum);
  write("cut.tar", shard("c", 4).substr(0, 3 * 2048 + 700));
  write("empty.tar", "");
  write("noise.tar", std::string(4096, 'x'));
  const auto report = index();
  EXPECT_EQ(report.damaged, 4u);
  // The last sample before the damage may lack fields.
  EXPECT_EQ(report.samples, 2u + 1 + 3);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("checksum.tar: after 'b0' at 4096: entry 5 is damaged"));
  EXPECT_THAT(lines[1], HasSubstr("cut.tar: after 'c2' at 6844: "));
  EXPECT_THAT(lines[2], HasSubstr("empty.tar: at 0: not a tar archive"));
  EXPECT_THAT(lines[3], HasSubstr("noise.tar: at 0: not a tar archive"));
  EXPECT_THAT(meta(".info.json"), HasSubstr("\"empty.tar\": 0"));
  EXPECT_EQ(meta("split.yaml"),
            "split_parts:\n  train:\n  - a.tar\n  - checksum.tar\n  - cut.tar\nexclude: []\n");
  EXPECT_EQ(index().damaged, 4u) << "it is reported again";
  EXPECT_EQ(index().unchanged, 1u);
}

TEST_F(Index, KeepsTheFirstOfTwoSamplesWithOneKey) {
  write("a.tar", shard("x", 2));
  write("b.tar", shard("x", 3));
  const auto report = index();
  EXPECT_EQ(report.duplicates, 2u);
  EXPECT_EQ(report.samples, 5u);
  EXPECT_THAT(
      lines, ElementsAre(
                 "b.tar: x0 at 0: the key is also in a.tar at 0, which the index keeps; make the keys differ",
                 "b.tar: x1 at 2048: the key is also in a.tar at 2048, which the index keeps; make the "
                 "keys differ"));
  EXPECT_EQ(rows(2).size(), 3u);
  EXPECT_EQ(fs::file_size(root / "b.tar.idx"), 8u * 4) << "the archive has three";
  EXPECT_EQ(index().duplicates, 2u) << "they are reported again";
}

TEST_F(Index, LeavesWhatOthersWrote) {
  for (const char* name : {"a", "b", "c", "d"}) write(std::string(name) + ".tar", shard(name, 1));
  write(".nv-meta/split.yaml", "theirs");
  write(".nv-meta/dataset.yaml", "theirs");
  EXPECT_THAT(index({.val = 0.5}).notes,
              ElementsAre(HasSubstr("split.yaml was not written by this command and"),
                          HasSubstr("dataset.yaml was not written")));
  EXPECT_EQ(meta("split.yaml") + meta("dataset.yaml"), "theirstheirs");
  index({.again = true});
  EXPECT_THAT(meta("split.yaml"), HasSubstr("val:\n  - b.tar\n  - d.tar")) << "the share of before";
  index({.val = 0.25});
  EXPECT_THAT(meta("split.yaml"), HasSubstr("val:\n  - d.tar")) << "its own file is replaced";
  EXPECT_TRUE(index().is_current);
}

TEST_F(Index, MakesTheSplitNameWhatIsThere) {
  for (const char* name : {"a", "b", "c", "d"}) write(std::string(name) + ".tar", shard(name, 1));
  index({.val = 0.5});
  fs::remove(root / "b.tar");
  EXPECT_THAT(index().notes, IsEmpty());
  EXPECT_EQ(meta("split.yaml"),
            "split_parts:\n  train:\n  - a.tar\n  - d.tar\n  val:\n  - c.tar\nexclude: []\n");
  // A person's parts stay. Here c.tar is left out on purpose.
  write(".nv-meta/split.yaml", "split_parts:\n  mine: [a.tar, d.tar]  # by hand\nexclude: [a.tar/a0]\n");
  const std::string before = meta("split.yaml");
  EXPECT_THAT(index().notes,
              ElementsAre(HasSubstr("1 shard in none of its parts; add them to one, or to exclude")));
  EXPECT_EQ(meta("split.yaml"), before);
  fs::remove(root / "d.tar");
  write("e.tar", shard("e", 1));
  EXPECT_THAT(index().notes, ElementsAre(HasSubstr("1 shard in none"),
                                         HasSubstr("1 name without a shard removed, 1 shard added to mine")));
  EXPECT_EQ(meta("split.yaml"), "split_parts:\n  mine:\n  - a.tar\n  - e.tar\nexclude:\n- a.tar/a0\n");
  EXPECT_THAT(index({.val = 0.5}).notes,
              ElementsAre(HasSubstr("--val does not change it"), HasSubstr("1 shard in none")));
  EXPECT_TRUE(index().is_current);
}

TEST_F(Index, ContinuesAfterAnInterruption) {
  for (int i = 0; i < 6; ++i) write(fmt::format("s-{}.tar", i), shard(fmt::format("{}-", i), 5));
  index();
  const std::string whole = meta("index.sqlite");
  fs::remove_all(root / ".nv-meta");
  for (int i = 0; i < 6; ++i) fs::remove(root / fmt::format("s-{}.tar.idx", i));
  // As after a kill: the files of some shards, no index.
  const DataFolder folder = find_shards(root);
  const PushPiece drop = [](Piece) { return true; };
  for (size_t i : {0, 1, 4}) scan_shard(folder, folder.shards[i], drop);
  write("s-4.tar", shard("4-", 5));
  fs::last_write_time(root / "s-4.tar", fs::last_write_time(root / "s-4.tar") + std::chrono::seconds(9));
  EXPECT_EQ(index().unchanged, 2u) << "a shard that changed meanwhile is read again";
  EXPECT_TRUE(meta("index.sqlite") == whole);
  for (const auto& entry : fs::directory_iterator(root / ".nv-meta"))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("part"))) << "removed in the end";
}

TEST_F(Index, RefusesNamesThatItsFilesCannotHave) {
  EXPECT_THROW(find_shards(root), Error) << "no shards";
  write("shard.00000.mds", "");
  try {
    find_shards(root);
    FAIL() << "nothing there is a tar file";
  } catch (const Error& e) {
    EXPECT_THAT(
        e.what(),
        HasSubstr("no .tar files; give a folder of shards of WebDataset (only tables of data read MDS)"));
  }
  write("a{1}.tar", shard("a", 1));
  EXPECT_THROW(find_shards(root), Error);
  fs::remove(root / "a{1}.tar");
  write("\xff.tar", shard("a", 1));
  EXPECT_THROW(find_shards(root), Error);
}

}  // namespace
}  // namespace kinora::data
