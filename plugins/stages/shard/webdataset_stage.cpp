#include "webdataset_stage.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>

#include <nlohmann/json.hpp>

#include "kinora/error.hpp"
#include "kinora/plugin.hpp"

namespace kinora::shard {
namespace {

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
  throw Error(KINORA_ERROR_DATA, "sample '" + std::string(key) + "' cannot be stored: " + why);
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

// Whether a part is "__x__", which readers treat as a comment and skip.
bool is_note(std::string_view part) {
  return part.size() >= 4 && part.starts_with("__") && part.ends_with("__");
}

// An error of a shard or its index is not the fault of one sample: the engine ends the run on these two
// codes.
template <class F>
void as_storage_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    const bool full = e.code() == KINORA_ERROR_NO_MEMORY;
    throw Error(full || e.code() == KINORA_ERROR_CANCELLED ? e.code() : KINORA_ERROR_IO, e.what());
  }
}

constexpr const char *kFolder = "shard.folder", *kFiles = "shard.files";

// Returns the folder of a sample: below the dataset and without dots, because readers end a shard's name at a
// dot.
std::string folder_of(const Sample& in) {
  const std::string folder(in.text(kFolder).value_or(""));
  const bool is_name = std::all_of(folder.begin(), folder.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '/';
  });
  const bool is_below =
      !folder.starts_with('/') && !folder.ends_with('/') && folder.find("//") == std::string::npos;
  if (is_name && is_below) return folder;
  throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) + "' cannot be stored: its field " +
                                     kFolder + " is '" + folder +
                                     "'; use letters, digits, '_' and '-', with '/' between names");
}

std::string six_digits(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

// The fields that the sample has as files.
std::vector<Content> files_of(const Sample& in) {
  std::vector<Content> out;
  const auto text = in.text(kFiles);
  const auto files = nlohmann::json::parse(text.value_or("{}"), nullptr, false);
  bool is_right = files.is_object();
  for (auto at = files.begin(); is_right && at != files.end(); ++at) {
    const auto& file = *at;
    is_right = file.is_array() && file.size() == 2 && file[0].is_string() && file[1].is_number_unsigned();
    if (is_right) out.push_back({at.key(), file[1].get<uint64_t>(), "", file[0].get<std::string>()});
  }
  if (is_right) return out;
  refuse(in.key(), std::string("its field ") + kFiles + R"( is not like {"mp4": ["/clips/a.mp4", 12345]})");
}

// A shard that an interrupted run has written.
struct WrittenShard {
  explicit WrittenShard(const std::string& uri) {
    try {
      energon::ShardScan scan(RandomBytes::of_file(uri));
      while (auto sample = scan.next()) samples.push_back(*std::move(sample));
      end = scan.end();
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA) throw;
      throw Error(KINORA_ERROR_DATA,
                  std::string(e.what()) + "; or remove the shard and run again to write it anew");
    }
  }
  std::vector<energon::StoredSample> samples;
  uint64_t end = 0;
};

bool exists(const std::string& uri) {
  try {
    const Reader reader(uri);
    return true;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_NOT_FOUND) return false;
    throw;
  }
}

}  // namespace

void check_key(std::string_view key) {
  if (key.empty()) refuse(key, "its key is empty; give every sample a key");
  if (has_control(key)) refuse(key, "its key contains a control character; use letters, digits, '-' and '_'");
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    const std::string_view part = key.substr(at, end - at);
    const bool last = end == key.size();
    if (part.empty() || part == "." || part == "..")
      refuse(key, "its key has an empty part, '.' or '..' between slashes; remove it");
    if (is_note(part))
      refuse(key, "readers skip names such as '" + std::string(part) + "'; choose another key");
    if (last && part.find('.') != std::string_view::npos)
      refuse(key,
             "a key may have no dot after its last slash, because readers end the key there; replace the dot "
             "with '-' or '_'");
    at = end + 1;
  }
}

void check_field(std::string_view key, std::string_view field) {
  if (field.empty() || field.find('/') != std::string_view::npos || has_control(field))
    refuse(key, "the field name '" + std::string(field) +
                    "' is empty or has a slash or a control character; rename the field");
}

void WebDatasetStage::describe(Describe<Options>& d) {
  d.name("shard.webdataset").help("Packs samples into WebDataset tar shards with Energon's index");
  d.option("prefix", &Options::prefix).help("start of the shards' names: PREFIX-000000.tar and so on");
  d.option("max_count", &Options::max_count)
      .range(1, 1'000'000'000)
      .help("maximum number of samples per shard");
  d.option("max_size", &Options::max_size)
      .bytes()
      .at_least(1024)
      .help("largest size of a shard, unless a single sample is larger");
  d.option("val", &Options::val)
      .range(0, 1)
      .help("share of the shards that split.yaml assigns to validation");
  d.option("skip", &Options::skip).help("fields that are not stored");
  d.option("part", &Options::part)
      .range(0, 1'000'000)
      .unit("shards")
      .help("most shards per folder part_000000, part_000001 and so on; 0: no such folders");
}

WebDatasetStage::WebDatasetStage(const Options& options) : options_(options) {
  check_field("", options.prefix);
  if (options.prefix.find('.') != std::string::npos)
    throw Error(KINORA_ERROR_INVALID, "prefix = '" + options.prefix +
                                          "': readers end a shard's name at its first dot; remove the dot");
}

std::string WebDatasetStage::shard_name(size_t number) const {
  const auto part = static_cast<size_t>(options_.part);
  std::string name = place_.empty() ? "" : place_ + "/";
  if (part > 0) name += "part_" + six_digits(number / part) + "/";
  return name + options_.prefix + "-" + six_digits(part > 0 ? number % part : number) + ".tar";
}

// Directs the following samples to this folder.
void WebDatasetStage::enter(const std::string& folder, const Emit& emit, const Run& run) {
  if (index_ && folder == place_) return;
  if (open_) begin_writing(emit, run);
  place_ = folder;
  find_written_shards(emit, run);
}

// Finds the shards of an interrupted run. They are complete, because a shard appears only when it is. Shards
// after the first that is missing are written again.
void WebDatasetStage::find_written_shards(const Emit& emit, const Run& run) {
  if (!index_) {
    folder_ = run.out();
    index_.emplace();
  }
  if (!numbers_.try_emplace(place_, 0).second) return;
  for (std::string name; exists(uri(name = next_name())); ++numbers_.at(place_)) {
    run.check_cancelled();
    while (!writing_.empty()) finish_first(emit, run);  // the shards are recorded in their order
    const WrittenShard shard(uri(name));
    if (!exists(uri(name + ".idx")))
      write_file(uri(name + ".idx"), energon::tar_index(shard.samples, shard.end));
    record(name, shard.samples);
    was_there_.back() = 1;
    resumes_ = true;
  }
}

void WebDatasetStage::record(const std::string& name, const std::vector<energon::StoredSample>& samples) {
  index_->add(static_cast<int64_t>(shards_.size()), samples);
  shards_.push_back({name, samples.size()});
  was_there_.push_back(0);
  hash_.add(name);
  for (const auto& sample : samples) hash_.add(sample);
}

std::vector<Content> WebDatasetStage::contents_of(const Sample& in) const {
  check_key(in.key());
  std::vector<Content> out = files_of(in);
  for (const auto& field : in.fields()) {
    if (field.name == kFolder || field.name == kFiles) continue;
    const auto at =
        std::find_if(out.begin(), out.end(), [&](const Content& c) { return c.field == field.name; });
    Content content{std::string(field.name), field.bytes.size(), {field.bytes.begin(), field.bytes.end()}};
    if (at == out.end())
      out.push_back(std::move(content));
    else
      *at = std::move(content);
  }
  std::erase_if(out, [&](const Content& content) {
    return std::find(options_.skip.begin(), options_.skip.end(), content.field) != options_.skip.end();
  });
  for (const auto& content : out) check_field(in.key(), content.field);
  if (out.empty())
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(in.key()) +
                    "' cannot be stored: it has no byte fields; put a stage that sets one before this stage");
  return out;
}

// Whether an earlier run has stored it. Two samples of one key in different shards end the run when the index
// receives the second one.
bool WebDatasetStage::is_stored(std::string_view key) const {
  if (!resumes_) return false;
  const auto place = index_->find(key);
  return place && was_there_[static_cast<size_t>(place->shard)];
}

kinora_resources WebDatasetStage::resources() const {
  constexpr double kAll = 1e6;  // as many threads as the run has
  return {sizeof(kinora_resources), 1, kAll, 0.0, 0};
}

void WebDatasetStage::process(Sample in, const Emit& emit, const Run& run) {
  PlannedSample sample{std::string(in.key()), contents_of(in)};
  const std::string folder = folder_of(in);
  as_storage_error([&] { enter(folder, emit, run); });
  if (is_stored(sample.key)) {
    emit.hold();
    return emit.stored(sample.key);
  }
  if (known_.contains(sample.key))
    refuse(sample.key, "its shard has a sample with that key; make the keys differ");
  emit.hold();
  as_storage_error([&] { plan(std::move(sample), emit, run); });
}

void WebDatasetStage::plan(PlannedSample sample, const Emit& emit, const Run& run) {
  constexpr uint64_t kEnd = 1024;  // of an archive
  const uint64_t size = most_in_archive(sample);
  if (open_ && open_->size + size + kEnd > static_cast<uint64_t>(options_.max_size)) begin_writing(emit, run);
  if (!open_) open_.emplace();
  open_->size += size;
  for (const auto& content : sample.fields) open_->in_memory += content.bytes.size();
  known_.insert(sample.key);
  open_->samples.push_back(std::move(sample));
  if (open_->samples.size() >= static_cast<size_t>(options_.max_count)) begin_writing(emit, run);
}

uint64_t WebDatasetStage::in_memory() const {
  return std::accumulate(writing_.begin(), writing_.end(), uint64_t{0},
                         [](uint64_t sum, const Writing& w) { return sum + w.shard->in_memory; });
}

// Writes the open shard in a thread of its own, when there is room for one.
void WebDatasetStage::begin_writing(const Emit& emit, const Run& run) {
  constexpr uint64_t kMemory = uint64_t{1} << 28;
  const auto writers = static_cast<size_t>(std::max(1, run.threads()));
  while (writing_.size() >= writers || (!writing_.empty() && in_memory() + open_->in_memory > kMemory))
    finish_first(emit, run);
  open_->name = next_name();
  open_->uri = uri(open_->name);
  ++numbers_.at(place_);
  const auto shard = std::make_shared<const PlannedShard>(*std::exchange(open_, std::nullopt));
  known_.clear();
  writing_.push_back(
      {shard, std::async(std::launch::async, [shard, this] { return write_shard(*shard, stop_); })});
}

// Waits for the first of the shards that are being written, and records it.
void WebDatasetStage::finish_first(const Emit& emit, const Run& run) {
  constexpr std::chrono::milliseconds kPoll{50};
  while (writing_.front().samples.wait_for(kPoll) != std::future_status::ready) run.check_cancelled();
  Writing first = std::move(writing_.front());
  writing_.pop_front();
  record(first.shard->name, first.samples.get());
  for (const auto& sample : first.shard->samples) emit.stored(sample.key);
}

void WebDatasetStage::finish(const Emit& emit, const Run& run) {
  as_storage_error([&] {
    if (!index_) find_written_shards(emit, run);
    if (open_) begin_writing(emit, run);
    while (!writing_.empty()) finish_first(emit, run);
  });
  const std::string meta = folder_ + "/.nv-meta/";
  index_->publish(meta + "index.sqlite");
  write_file(meta + "index.uuid", hash_.uuid());
  write_file(meta + "split.yaml", energon::split_yaml(shards_, options_.val));
  write_file(meta + "dataset.yaml", energon::dataset_yaml());
  write_file(meta + ".info.json",
             energon::info_json(shards_));  // written last: it makes the folder a dataset
}

}  // namespace kinora::shard

using kinora::shard::WebDatasetStage;
KINORA_COMPONENT(WebDatasetStage)
KINORA_PLUGIN(WebDatasetStage)
