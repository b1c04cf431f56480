// Queues of BullMQ: jobs, a retry, a delayed job and a flow.
const { FlowProducer, Queue, QueueEvents, Worker } = require('bullmq');

const connection = { port: Number(process.argv[2]), maxRetriesPerRequest: null };

async function main() {
    const queue = new Queue('work', { connection });
    const events = new QueueEvents('work', { connection });
    await events.waitUntilReady();
    const worker = new Worker('work', async (job) => {
        if (job.name === 'retry' && job.attemptsMade === 0) throw new Error('the first try fails');
        return job.data.number * 2;
    }, { connection, concurrency: 2 });
    const jobs = [
        await queue.add('plain', { number: 1 }),
        await queue.add('retry', { number: 2 }, { attempts: 2, backoff: 10 }),
        await queue.add('later', { number: 3 }, { delay: 300 }),
        await queue.add('first', { number: 4 }, { priority: 1 }),
    ];
    const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 60000)));
    if (results.join() !== '2,4,6,8') throw new Error(`results ${results}`);
    const flow = new FlowProducer({ connection });
    const child = { name: 'child', queueName: 'work', data: { number: 5 } };
    const tree = await flow.add({ name: 'parent', queueName: 'work', data: { number: 6 }, children: [child] });
    await tree.job.waitUntilFinished(events, 60000);
    await queue.obliterate({ force: true });
    await Promise.all([worker.close(), events.close(), flow.close(), queue.close()]);
    console.log('jobs, a retry, a delay, a priority, and a flow');
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
}).then(() => process.exit(0));
