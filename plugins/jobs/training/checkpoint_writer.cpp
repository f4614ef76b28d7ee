#include "plugins/jobs/training/checkpoint_writer.hpp"

#include <chrono>
#include <thread>

#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/io/fence.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

BackgroundWriter::~BackgroundWriter() {
  try {
    finish();
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_CANCELLED) log_error("{}", e.what());
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
}

void BackgroundWriter::start(std::function<void()> work) {
  finish();
  if (background_)
    work_ = std::async(std::launch::async, std::move(work));
  else
    work();
}

bool BackgroundWriter::busy() const {
  return work_.valid() && work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void BackgroundWriter::check() {
  if (!busy()) finish();
}

void BackgroundWriter::finish() {
  if (work_.valid()) work_.get();
}

CheckpointWriter::CheckpointWriter(std::filesystem::path root, const Exchange& exchange,
                                   const Options& options)
    : root_(std::move(root)), exchange_(exchange), options_(options), writer_(options.background) {}

void CheckpointWriter::start(TrainState state, std::vector<TensorFile> files) {
  finish();
  auto made = std::make_unique<NewCheckpoint>(root_, std::move(state), std::move(files), exchange_,
                                              options_.shard_size);
  options_.background ? made->keep() : made->stream();
  current_ = std::move(made);
  if (!options_.background) return commit();
  write_behind([this] {
    if (exchange_.size() > 1) return current_->write();
    const auto mine = std::move(current_);
    mine->write();
    mine->commit();
    prune();
  });
}

bool CheckpointWriter::all_written() const {
  for (const auto& busy : exchange_.gather(at::full({1}, writer_.busy() ? 1 : 0, at::kByte)))
    if (busy.item<uint8_t>()) return false;
  return true;
}

void CheckpointWriter::check() {
  if (exchange_.size() == 1) return writer_.check();
  if (current_ && all_written()) commit();
}

// Polls, so that a rank with a slow disk is not taken for one that misses a transfer.
void CheckpointWriter::finish() {
  if (exchange_.size() == 1 || !current_) return writer_.finish();
  while (!all_written()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  commit();
}

void CheckpointWriter::commit() {
  const auto done = std::move(current_);  // removed if commit() fails
  std::exception_ptr failure;
  try {
    writer_.finish();
  } catch (...) {
    failure = std::current_exception();
  }
  done->commit(failure);
  if (exchange_.rank() == 0) write_behind([this] { prune(); });
}

void CheckpointWriter::write_behind(std::function<void()> work) {
  writer_.start([this, work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {
      or_throw(may_publish(root_));  // a copy that took the run over has removed the unfinished checkpoint
      throw;
    }
  });
}

void CheckpointWriter::prune() const { prune_checkpoints(root_, options_.keep, options_.keep_every); }

}  // namespace kinora::core
