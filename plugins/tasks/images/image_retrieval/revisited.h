// Precision of a ranking as the revisited Oxford and Paris measure it.
//
//              to be found     left out
//   easy       easy            junk, hard
//   medium     easy, hard      junk
//   hard       hard            junk, easy
//
// What is left out is taken out of the ranking, and what stands behind it moves up. Of a query with
// P pictures to be found, the j-th of them at rank r_j (both counted from 0):
//
//   AP  = 1/P sum_j 1/2 ((j / r_j, or 1 at rank 0) + (j + 1) / (r_j + 1))
//   P@k = share of them among the first min(k, 1 + rank of the last one)
//
// map and mp1, mp5, mp10 are means over the queries that have something to be found.
// Source: Radenović et al., Revisiting Oxford and Paris, CVPR 2018, and its public code. Cost: a
// sort of the database for each query.
#pragma once

#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

/// Pictures of the database that show what a query shows, by their numbers.
struct Relevant {
  std::vector<std::int64_t> easy, hard, junk;
};

/// map_SETTING, mp1_SETTING, mp5_SETTING and mp10_SETTING of medium, hard and easy.
std::vector<MetricInfo> revisited_metric_infos();

/// @param similarity  [Q, N] floating point, of each query to each picture of the database. Of
///                    equal ones the first picture counts as nearer; what is not a number is last
/// @param relevant    of each query
/// @returns the metrics, without those of a setting in which no query has anything to be found.
/// @throws DataError for a number that is not below N; UndefinedMetrics where there is no medium.
Metrics revisited_metrics(const Tensor& similarity, const std::vector<Relevant>& relevant);

}  // namespace attnlab
