/* A small kernel that compilers have something to do with: a product of matrices, a filter, a sort, a checksum. */
#include <stdio.h>
#include <stdlib.h>

#define N 48
#define LENGTH 6000

static double a[N][N], b[N][N], c[N][N], signal_in[LENGTH], signal_out[LENGTH];
static unsigned int keys[LENGTH];

static double square(double x) { return x * x; }

static void multiply(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0.0;
            for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
}

static void filter(void) {
    for (int i = 2; i < LENGTH - 2; i++) {
        double sum = 0.0;
        for (int d = -2; d <= 2; d++) sum += signal_in[i + d] / (1.0 + square(d));
        signal_out[i] = i % 3 ? sum : -sum;
    }
}

static void sort(unsigned int *keys, int n) {
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int i = gap; i < n; i++) {
            unsigned int key = keys[i];
            int j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap) keys[j] = keys[j - gap];
            keys[j] = key;
        }
}

int main(int argc, char **argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 1;
    unsigned int state = 12345, checksum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (i * j) % 7;
            b[i][j] = (i + j) % 5;
        }
    for (int again = 0; again < repeats; again++) {
        for (int i = 0; i < LENGTH; i++) {
            state = state * 1664525u + 1013904223u;
            keys[i] = state >> 8;
            signal_in[i] = state % 1000;
        }
        multiply();
        filter();
        sort(keys, LENGTH);
        for (int i = 0; i < LENGTH; i++) checksum = checksum * 31 + keys[i] + (unsigned int)signal_out[i];
    }
    printf("checksum %u, trace %g\n", checksum, c[3][4] + c[N - 1][N - 1]);
    return 0;
}
