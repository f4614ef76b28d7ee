// The sections of the page, in order. A section about jobs that the run does not have writes nothing.
#pragma once
#include "plugins/jobs/report/parts.hpp"

namespace kinora::core::report {

void write_films(Page&);      // the contact sheet
void write_outcomes(Page&);   // outcomes of all inputs and clips, and whether the sums add up
void write_tokenizer(Page&);  // reconstructions next to originals
void write_training(Page&);   // training curves
void write_videos(Page&);     // generated videos
void write_times(Page&);      // seconds per job
void write_settings(Page&);   // the run file and the versions

// The inputs, the filtering rules with scores, and the failures with errors.
void write_outcome_tables(Html&, const Curation&);

// The score of a video's frames over its shots.
void write_timeline(Html&, const Film&, std::optional<double> threshold);
// Outcome of a shot: "kept", "filtered", "failed" or "none".
const char* end_of(const Shot&);

}  // namespace kinora::core::report
