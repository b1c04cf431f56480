#include <igraph/igraph.h>
#include <unistd.h>

// Makes a graph of 60,000 vertices by preferential attachment, then counts its components or ranks
// its vertices.
int main(int count, char **words) {
    igraph_t graph;
    igraph_vector_t ranks;
    igraph_integer_t parts;
    igraph_rng_seed(igraph_rng_default(), 1);
    igraph_barabasi_game(&graph, 60000, 1, 4, NULL, 1, 1, IGRAPH_UNDIRECTED, IGRAPH_BARABASI_BAG, NULL);
    igraph_vector_init(&ranks, 0);
    switch (*words[1]) {
    case 'c': igraph_connected_components(&graph, NULL, NULL, &parts, IGRAPH_WEAK); break;
    case 'p': igraph_pagerank(&graph, IGRAPH_PAGERANK_ALGO_PRPACK, &ranks, NULL, igraph_vss_all(),
                              IGRAPH_UNDIRECTED, 0.85, NULL, NULL);
    }
    _exit(0);
}
